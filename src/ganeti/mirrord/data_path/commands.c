/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The commands of ganeti-mirrord: a message each, fields parted by line feeds, the first one a number that the answer
 * has, too. Events have the number 0. `storage_daemon.py` is the other side.
 */
#include "storage.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIELDS = 16, ASKING = 16 };
static const double ASKED_S = 10.0, LEAVING_S = 4.0;

static int door = -1, client = -1;
static char loss[SENTENCE];
static unsigned hiding, cutting, detaching; /* numbers of commands that are not answered yet */
static const struct handshake *attaching;
static bool is_leaving, was_equal;
static double leave_until_s;
static unsigned last_asking;
static struct handshake *asking; /* what waits for its answer */

bool commands_listen(const char *path) {
	door = listen_at(path, SOCK_SEQPACKET);
	return door >= 0;
}

int commands_door(void) {
	return door;
}

int commands_client(void) {
	return client;
}

static void drop_client(void) {
	if (client >= 0)
		close(client);
	client = -1;
	/* whoever asked is gone; what was begun goes on */
	hiding = cutting = detaching = 0;
	attaching = NULL;
	for (struct handshake *each; (each = asking);) {
		asking = each->next;
		handshake_free(each);
	}
}

static void tell(const char *text, size_t length) {
	if (client >= 0 && send(client, text, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		drop_client();
}

static void __attribute__((format(printf, 3, 4))) answer(unsigned number, const char *how, const char *format, ...) {
	static char text[LINE + NAME];
	int length = snprintf(text, sizeof text, "%u\n%s", number, how);
	va_list words;
	va_start(words, format);
	length += vsnprintf(text + length, sizeof text - length, format, words);
	va_end(words);
	if (!number && (!strcmp(how, "ok") || !strcmp(how, "error")))
		return; /* of a command whose client is gone */
	tell(text, length < (int)sizeof text ? length : (int)sizeof text - 1);
}

static void ok(unsigned number) {
	answer(number, "ok", "%s", "");
}

static void refuse(unsigned number, const char *why) {
	answer(number, "error", "\n%s", why);
}

static void tell_loss(void) {
	answer(0, "lost", "\n%s", loss);
}

void commands_tell_loss(const char *why) {
	snprintf(loss, sizeof loss, "%s", why);
	tell_loss();
}

bool commands_accept(void) {
	const int other = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (other < 0)
		return errno != EMFILE && errno != ENFILE;
	drop_client();
	client = other;
	if (!loss_is_noted)
		tell_loss();
	return true;
}

static const char *state_word(void) {
	if (!loss_is_noted)
		return "losing";
	if (far_state == WORKS)
		return copying_is_equal() ? "equal" : "copying";
	return far_state == LOST ? "lost" : "alone";
}

static bool set_text(char *place, size_t room, const char *text) {
	if (strlen(text) >= room)
		return false;
	strcpy(place, text);
	return true;
}

static bool read_number(const char *text, uint64_t *number) {
	char *end;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && *text >= '0' && *text <= '9' && !*end;
}

/* Commands */

static void show(unsigned number, char **field) {
	if (!set_text(export_name, sizeof export_name, field[0]))
		refuse(number, "the name is too long");
	else
		ok(number);
}

static void hide(unsigned number, char **field) {
	(void)field;
	if (hiding) {
		refuse(number, "something else is under way");
		return;
	}
	*export_name = 0;
	clients_end(false);
	hiding = number;
}

static void cut(unsigned number, char **field) {
	(void)field;
	if (cutting) {
		refuse(number, "something else is under way");
		return;
	}
	clients_end(true);
	cutting = number;
}

static void size(unsigned number, char **field) {
	uint64_t bytes;
	if (*export_name || far_state != ALONE)
		refuse(number, "the disk is in use");
	else if (!read_number(field[0], &bytes) || bytes % BLOCK)
		refuse(number, "a size is a multiple of 4096 bytes");
	else if (!image_resize(bytes))
		refuse(number, strerror(errno));
	else
		ok(number);
}

static struct handshake *handshake_new(unsigned number, bool is_server) {
	struct handshake *handshake = calloc(1, sizeof *handshake);
	if (!handshake)
		return NULL;
	handshake->number = number;
	handshake->is_server = is_server;
	handshake->socket = -1;
	handshake->line = calloc(1, LINE);
	return handshake;
}

static bool set_name(char *place, size_t room, const char *text) {
	return *text && set_text(place, room, text);
}

static bool set_attach(struct handshake *with, char **field) {
	return with->line && set_text(with->address, sizeof with->address, field[0]) &&
		set_text(with->port, sizeof with->port, field[1]) && set_name(with->peer, sizeof with->peer, field[2]) &&
		set_text(with->uuid, sizeof with->uuid, field[3]) &&
		set_text(with->certificate, sizeof with->certificate, field[4]) &&
		set_text(with->authority, sizeof with->authority, field[5]) &&
		set_name(with->export, sizeof with->export, field[6]) && set_text(with->copy, sizeof with->copy, field[7]) &&
		read_number(field[8], &with->rate) && set_text(with->line, LINE - 1, field[9]);
}

static void attach(unsigned number, char **field) {
	if (far_state == WORKS || is_leaving || attaching || !loss_is_noted) {
		refuse(number, far_state == WORKS ? "it is attached" : "something else is under way");
		return;
	}
	struct handshake *with = handshake_new(number, false);
	if (!with || !set_attach(with, field)) {
		refuse(number, "a field is empty, too long, or no number");
	} else if (far_state == ALONE && !copying_prepare(with->copy)) {
		refuse(number, "no memory is left");
	} else {
		requests_mark_begun(); /* and what is begun from now on is noted, too */
		with->size = image_size;
		if (handshake_start(with)) {
			attaching = with;
			return;
		}
		refuse(number, "no thread can be started");
	}
	if (with)
		handshake_free(with);
}

static void detach(unsigned number, char **field) {
	(void)field;
	if (is_leaving) {
		refuse(number, "something else is under way");
		return;
	}
	if (attaching)
		refuse(attaching->number, "it is detached");
	attaching = NULL;
	detaching = number;
	is_leaving = true;
	was_equal = copying_is_equal();
	leave_until_s = now_s() + LEAVING_S;
	requests_close_gate(true);
}

static void rate(unsigned number, char **field) {
	if (!read_number(field[0], &copy_rate))
		refuse(number, "that is no number");
	else
		ok(number);
}

static void noted(unsigned number, char **field) {
	(void)field;
	loss_is_noted = true;
	requests_release();
	ok(number);
}

static void status(unsigned number, char **field) {
	uint64_t done, total;
	(void)field;
	copying_progress(&done, &total);
	answer(number, "ok", "\n%s\n%llu\n%llu\n%s", state_word(), (unsigned long long)done, (unsigned long long)total,
		export_name);
}

static void take(unsigned number, char **field, int socket) {
	struct handshake *with = handshake_new(++last_asking, true);
	if (socket < 0)
		refuse(number, "no descriptor came with it");
	else if (!with || !set_text(with->certificate, sizeof with->certificate, field[0]) ||
		!set_text(with->authority, sizeof with->authority, field[1]))
		refuse(number, "a path is too long");
	else {
		with->socket = socket;
		if (handshake_start(with)) {
			ok(number);
			return;
		}
		with->socket = -1;
		refuse(number, "too many connections are not agreed on yet");
	}
	if (with)
		handshake_free(with);
	if (socket >= 0)
		close(socket);
}

static void give_answer(unsigned number, char **field) {
	uint64_t wanted;
	struct handshake **place = &asking, *found;
	if (!read_number(field[0], &wanted))
		wanted = 0;
	while (*place && (*place)->number != wanted)
		place = &(*place)->next;
	if (!(found = *place)) {
		refuse(number, "that connection has ended");
		return;
	}
	*place = found->next;
	if (strcmp(field[1], "serve")) {
		struct channel channel;
		channel_open(&channel, found->socket, found->tls);
		channel_put(&channel, field[2], strlen(field[2]));
		channel_put(&channel, "\n", 1);
		channel_send(&channel);
		channel_close(&channel);
	} else if (!client_new(found->socket, found->tls, field[2])) {
		channel_close(&(struct channel){.socket = found->socket, .tls = found->tls});
	}
	found->socket = -1;
	found->tls = NULL;
	handshake_free(found);
	ok(number);
}

static const struct command {
	const char *word;
	int fields;
	void (*carry_out)(unsigned number, char **field);
} commands[] = {
	{"show", 1, show}, {"hide", 0, hide}, {"cut", 0, cut}, {"size", 1, size}, {"attach", 10, attach},
	{"detach", 0, detach}, {"rate", 1, rate}, {"noted", 0, noted}, {"status", 0, status}, {"answer", 3, give_answer},
};

static void carry_out(char *text, int socket) {
	char *field[FIELDS], *rest = text;
	int count = 0;
	while (rest && count < FIELDS)
		field[count++] = strsep(&rest, "\n");
	uint64_t number;
	if (count < 2 || !read_number(field[0], &number) || !number || number > UINT32_MAX) {
		drop_client();
	} else if (!strcmp(field[1], "take") && count == 4) {
		take(number, field + 2, socket);
		return;
	} else {
		const struct command *each = commands, *end = commands + sizeof commands / sizeof *commands;
		while (each < end && (strcmp(each->word, field[1]) || each->fields != count - 2))
			each++;
		if (each < end)
			each->carry_out(number, field + 2);
		else
			refuse(number, "that command is not known");
	}
	if (socket >= 0)
		close(socket);
}

/* The first one; others are closed. */
static int descriptor_of(struct msghdr *message) {
	int first = -1;
	const struct cmsghdr *head = CMSG_FIRSTHDR(message);
	if (!head || head->cmsg_type != SCM_RIGHTS)
		return -1;
	for (size_t at = 0; CMSG_LEN(at + sizeof first) <= head->cmsg_len; at += sizeof first) {
		int each;
		memcpy(&each, CMSG_DATA(head) + at, sizeof each);
		if (first < 0)
			first = each;
		else
			close(each);
	}
	return first;
}

void commands_take(void) {
	static char text[LINE];
	char about[CMSG_SPACE(sizeof(int))] __attribute__((aligned(sizeof(struct cmsghdr))));
	struct iovec place = {text, sizeof text - 1};
	struct msghdr message = {
		.msg_iov = &place, .msg_iovlen = 1, .msg_control = about, .msg_controllen = sizeof about};
	const ssize_t some = recvmsg(client, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (some < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (some <= 0) {
		drop_client();
		return;
	}
	const int socket = descriptor_of(&message);
	if (message.msg_flags & MSG_TRUNC) {
		if (socket >= 0)
			close(socket);
		drop_client();
		return;
	}
	text[some] = 0;
	carry_out(text, socket);
}

/* What takes its time */

static void attached(struct handshake *with) {
	if (attaching != with)
		return;
	attaching = NULL;
	if (*with->error && far_state == ALONE)
		copying_forget();
	if (*with->error && with->is_refused)
		answer(with->number, "error", "\n%s\n%s", with->error, with->line);
	else if (*with->error)
		refuse(with->number, with->error);
	else if (with->size != image_size || (far_state == LOST && !copying_prepare(with->copy)))
		refuse(with->number, "the disk has changed meanwhile");
	else {
		copy_rate = with->rate;
		far_attach(with->socket, with->tls);
		with->socket = -1;
		with->tls = NULL;
		ok(with->number);
	}
}

static int count_of_asking(void) {
	int count = 0;
	for (const struct handshake *each = asking; each; each = each->next)
		count++;
	return count;
}

void commands_handshake(struct handshake *handshake) {
	if (!handshake->is_server) {
		attached(handshake);
	} else if (*handshake->error) {
		say("a connection of another node failed: %s", handshake->error);
	} else if (client >= 0 && count_of_asking() < ASKING) {
		handshake->until_s = now_s() + ASKED_S;
		handshake->next = asking;
		asking = handshake;
		answer(0, "asks", "\n%u\n%s\n%s", handshake->number, handshake->names, handshake->line);
		return;
	}
	handshake_free(handshake);
}

static void leave_when_still(void) {
	const bool is_late = now_s() > leave_until_s;
	wake_at(leave_until_s + 0.001);
	if (!requests_are_still() && !is_late)
		return;
	was_equal = was_equal && copying_is_equal() && !is_late && loss_is_noted;
	if (was_equal && far_last_flush == NONE) {
		far_begin_last_flush();
		return;
	}
	if (was_equal && far_last_flush == DUE)
		return;
	was_equal = was_equal && far_last_flush == DONE;
	if (!was_equal)
		far_lose("it is left before it is equal"); /* whether it counts as equal nobody here knows */
	far_leave();
	far_last_flush = NONE;
	requests_close_gate(false);
	answer(detaching, "ok", "\n%s", was_equal ? "equal" : "unequal");
	detaching = 0;
	is_leaving = false;
}

void commands_look(void) {
	if (is_leaving)
		leave_when_still();
	if (hiding && clients_are_gone(false)) {
		ok(hiding);
		hiding = 0;
	}
	if (cutting && clients_are_gone(true)) {
		ok(cutting);
		cutting = 0;
	}
	for (struct handshake **place = &asking; *place;) {
		struct handshake *each = *place;
		if (each->until_s > now_s()) {
			wake_at(each->until_s);
			place = &each->next;
			continue;
		}
		*place = each->next;
		handshake_free(each);
	}
}
