/* SPDX-License-Identifier: BSD-2-Clause
 *
 * storage-daemon IMAGE COMMANDS NBD: serve one image, until a signal ends it.
 */
#include "storage.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SOCKETS = CLIENTS + 8 };
enum { IMAGE, BLOCKING, HANDSHAKES, SIGNALS, DOOR, COMMAND_DOOR, COMMANDS, FAR, FIXED };
static const double ENDING_S = 8.0, STILL_S = 0.1, AGAIN_S = 1.0;

const char *image_path;
static double wake_s;
static int door = -1, signals = -1;
static bool is_ending;
static double end_s;
static double doors_s; /* nobody is accepted before: there was no descriptor left */

double now_s(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

void say(const char *format, ...) {
	char text[1024], when[32];
	const time_t now = time(NULL);
	struct tm parts;
	strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
	va_list words;
	va_start(words, format);
	vsnprintf(text, sizeof text, format, words);
	va_end(words);
	fprintf(stderr, "%s disk %s: %s\n", when, image_path, text);
}

void wake_at(double when_s) {
	if (when_s < wake_s)
		wake_s = when_s;
}

int listen_at(const char *path, int kind) {
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof place.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(place.sun_path, path);
	unlink(path);
	const int listening = socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listening < 0 || bind(listening, (struct sockaddr *)&place, sizeof place) || listen(listening, 16))
		return -1;
	return listening;
}

static bool catch_signals(void) {
	sigset_t caught;
	sigemptyset(&caught);
	sigaddset(&caught, SIGTERM);
	sigaddset(&caught, SIGINT);
	signal(SIGPIPE, SIG_IGN);
	/* before any thread: they all leave these signals to the descriptor */
	sigprocmask(SIG_BLOCK, &caught, NULL);
	signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
	return signals >= 0;
}

static void accept_client(void) {
	const int socket = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (socket < 0 && (errno == EMFILE || errno == ENFILE))
		doors_s = now_s() + AGAIN_S;
	if (socket < 0)
		return;
	if (is_ending || !client_new(socket, NULL, NULL))
		close(socket);
}

static double last_s = INFINITY;

bool has_stood_still(void) {
	return now_s() > last_s + STILL_S;
}

/* Whether this program stood still, in its work or while it waited: stopped, swapped out, or kept by a slow disk. */
static bool stood_still(double begun_s, double due_s) {
	const double now = now_s();
	const bool result = begun_s > last_s + STILL_S || now > (due_s > begun_s ? due_s : begun_s) + STILL_S;
	last_s = now;
	return result;
}

static void wait_for_events(struct pollfd *all, unsigned count, bool has_more) {
	const double begun_s = now_s(), due_s = has_more ? begun_s : wake_s, left_s = due_s - begun_s;
	struct timespec time = {0, 0};
	if (left_s > 0 && !isinf(left_s))
		time = (struct timespec){(time_t)left_s, (long)((left_s - (time_t)left_s) * 1e9)};
	if (ppoll(all, count, isinf(left_s) ? NULL : &time, NULL) < 0)
		for (unsigned i = 0; i < count; i++)
			all[i].revents = 0;
	if (stood_still(begun_s, due_s))
		far_forgive();
	wake_s = INFINITY;
}

static bool list_sockets(struct pollfd *all, unsigned *count) {
	bool has_more = channel_has_more(&far_channel);
	all[IMAGE] = (struct pollfd){image_events, POLLIN, 0};
	all[BLOCKING] = (struct pollfd){blocking_events, POLLIN, 0};
	all[HANDSHAKES] = (struct pollfd){handshake_events, POLLIN, 0};
	const bool may_accept = now_s() >= doors_s;
	if (!may_accept)
		wake_at(doors_s);
	all[SIGNALS] = (struct pollfd){is_ending ? -1 : signals, POLLIN, 0};
	all[DOOR] = (struct pollfd){may_accept ? door : -1, POLLIN, 0};
	all[COMMAND_DOOR] = (struct pollfd){may_accept ? commands_door() : -1, POLLIN, 0};
	all[COMMANDS] = (struct pollfd){commands_client(), POLLIN, 0};
	all[FAR] = (struct pollfd){far_channel.socket, channel_events(&far_channel, true), 0};
	*count = FIXED;
	for (const struct client *client = clients; client; client = client->next) {
		const bool may_receive = client_may_receive(client);
		has_more |= may_receive && (client->is_blocked || channel_has_more(&client->channel));
		/* without events wanted even the end of a connection would wake without end */
		const short events = channel_events(&client->channel, may_receive);
		all[(*count)++] = (struct pollfd){events ? client->channel.socket : -1, events, 0};
	}
	return has_more;
}

static void take_events(const struct pollfd *all, unsigned count) {
	if (all[IMAGE].revents)
		image_take_ended();
	if (all[BLOCKING].revents)
		blocking_take_ended();
	if (all[FAR].revents & ~POLLOUT || channel_has_more(&far_channel))
		far_take();
	unsigned at = FIXED;
	for (struct client *client = clients; client && at < count; client = client->next, at++)
		client_take(client, all[at].revents & ~POLLOUT || channel_has_more(&client->channel));
	for (struct handshake *each; all[HANDSHAKES].revents && (each = handshake_take_ended());)
		commands_handshake(each);
	if (all[COMMANDS].revents)
		commands_take();
	if (all[COMMAND_DOOR].revents && !commands_accept())
		doors_s = now_s() + AGAIN_S;
	if (all[DOOR].revents)
		accept_client();
}

static void begin_to_end(void) {
	is_ending = true;
	end_s = now_s() + ENDING_S;
	*export_name = 0;
	clients_end(false);
	clients_end(true);
}

static bool has_ended(void) {
	wake_at(end_s);
	return requests_are_still() || now_s() > end_s;
}

static void serve(void) {
	static struct pollfd all[SOCKETS + 1];
	wake_s = INFINITY;
	while (!is_ending || !has_ended()) {
		unsigned count;
		const bool has_more = list_sockets(all, &count);
		wait_for_events(all, count, has_more);
		if (all[SIGNALS].revents && !is_ending)
			begin_to_end();
		take_events(all, count);
		if (!is_ending)
			copying_go();
		far_watch();
		clients_sweep();
		commands_look();
		handshake_watch();
		image_submit();
	}
}

int main(int count, char **word) {
	if (count != 4) {
		fprintf(stderr, "usage: storage-daemon IMAGE COMMANDS NBD\n");
		return 2;
	}
	image_path = word[1];
	umask(0077);
	/* what large requests used is given back */
	mallopt(M_MMAP_THRESHOLD, 2 * SMALL);
	mallopt(M_TRIM_THRESHOLD, 2 * SMALL);
	mallopt(M_ARENA_MAX, 1);
	if (!image_open(image_path))
		return 1;
	if (!catch_signals() || !handshake_prepare() || !blocking_start() || (door = listen_at(word[3], SOCK_STREAM)) < 0 ||
		!commands_listen(word[2])) {
		say("it cannot be served: %s", strerror(errno));
		return 1;
	}
	serve();
	image_sync();
	return 0;
}
