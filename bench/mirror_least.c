/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The least that a mirrored disk outside of the guest's QEMU can be: NBD for one client, each write sent to the own image
 * and to the other node at once. No TLS, no generations, no bitmap, no loss: only to learn what such a way costs.
 *
 *     mirror_least IMAGE PORT          the secondary: serves its image at 127.0.0.1
 *     mirror_least IMAGE PORT SOCKET   the primary: serves a guest at SOCKET, after it has reached the secondary
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { WRITES = 64, BLOCK = 4096, LONGEST = 65536, BUFFER = 1 << 20, HEADER = 28, ANSWER = 16 };
enum { READ, WRITE, DISCONNECT };
enum { EXPORT_NAME = 1, INFO = 6, GO = 7 };

static const uint64_t OPTION_ANSWER = 0x3e889045565a9;
static const uint32_t UNSUPPORTED = 0x80000001, SIMPLE_ANSWER = 0x67446698;

struct write {
	struct iocb block;
	char *data;
	uint64_t handle;
	int left; /* copies that do not have it yet; 0: the place is free */
};

struct connection {
	int socket;
	size_t received, due;
	char in[BUFFER], out[BUFFER];
};

static struct write writes[WRITES];
static struct connection guest, other;
static aio_context_t context;
static int image, ended, is_primary;
static off_t size;

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void put32(char *place, uint32_t number) {
	number = htobe32(number);
	memcpy(place, &number, sizeof number);
}

static void put64(char *place, uint64_t number) {
	number = htobe64(number);
	memcpy(place, &number, sizeof number);
}

static uint32_t get32(const char *place) {
	uint32_t number;
	memcpy(&number, place, sizeof number);
	return be32toh(number);
}

static uint64_t get64(const char *place) {
	uint64_t number;
	memcpy(&number, place, sizeof number);
	return be64toh(number);
}

static void wait_for(int socket, short event) {
	struct pollfd one = {socket, event, 0};
	poll(&one, 1, -1);
}

static void put(struct connection *to, const void *bytes, size_t count) {
	if (to->due + count > BUFFER)
		fail("buffer");
	memcpy(to->out + to->due, bytes, count);
	to->due += count;
}

static void send_due(struct connection *to) {
	for (size_t sent = 0; sent < to->due;) {
		const ssize_t some = send(to->socket, to->out + sent, to->due - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (some < 0 && errno != EAGAIN)
			break; /* the next receive finds the end */
		if (some < 0)
			wait_for(to->socket, POLLOUT);
		else
			sent += some;
	}
	to->due = 0;
}

static int receive(struct connection *from) {
	const ssize_t some = recv(from->socket, from->in + from->received, BUFFER - from->received, MSG_DONTWAIT);
	if (some < 0)
		return errno == EAGAIN;
	from->received += some;
	return some > 0;
}

static void used(struct connection *from, size_t count) {
	from->received -= count;
	memmove(from->in, from->in + count, from->received);
}

static void need(struct connection *from, size_t count) {
	while (from->received < count) {
		wait_for(from->socket, POLLIN);
		if (!receive(from))
			exit(0);
	}
}

/* What the server offers, until the client has chosen the disk. */
static void greet(struct connection *client) {
	char answer[64];
	put(client, "NBDMAGICIHAVEOPT\0\3", 18);
	send_due(client);
	need(client, 4);
	used(client, 4);
	for (uint32_t option = 0; option != GO;) {
		need(client, ANSWER);
		option = get32(client->in + 8);
		const uint32_t length = get32(client->in + 12);
		need(client, ANSWER + length);
		used(client, ANSWER + length);
		put64(answer, OPTION_ANSWER);
		put32(answer + 8, option);
		const int is_known = option == GO || option == INFO;
		if (is_known) {
			put32(answer + 12, 3);
			put32(answer + 16, 12);
			memset(answer + 20, 0, 2);
			put64(answer + 22, size);
			memcpy(answer + 30, "\1\15", 2); /* flush, FUA */
			put(client, answer, 32);
			put32(answer + 16, 14);
			memcpy(answer + 20, "\0\3", 2);
			put32(answer + 22, BLOCK);
			put32(answer + 26, BLOCK);
			put32(answer + 30, LONGEST);
			put(client, answer, 34);
		}
		put32(answer + 12, is_known ? 1 : UNSUPPORTED);
		put32(answer + 16, 0);
		put(client, answer, 20);
		send_due(client);
	}
}

static void choose_disk(struct connection *server) {
	char option[26] = "\0\0\0\1IHAVEOPT";
	need(server, 18);
	used(server, 18);
	put32(option + 12, GO);
	put32(option + 16, 6);
	memset(option + 20, 0, 6);
	put(server, option, sizeof option);
	send_due(server);
	for (uint32_t kind = 0; kind != 1;) {
		need(server, 20);
		kind = get32(server->in + 12);
		const uint32_t length = get32(server->in + 16);
		need(server, 20 + length);
		used(server, 20 + length);
	}
}

static void answer(uint64_t handle) {
	char bytes[ANSWER] = {0};
	put32(bytes, SIMPLE_ANSWER);
	memcpy(bytes + 8, &handle, sizeof handle);
	put(&guest, bytes, sizeof bytes);
}

static void has_it(struct write *one) {
	if (--one->left == 0)
		answer(one->handle);
}

static struct write *free_place(void) {
	for (int i = 0; i < WRITES; i++)
		if (!writes[i].left)
			return &writes[i];
	return NULL;
}

static struct iocb *begin_write(struct write *one, const char *request, uint32_t length) {
	memcpy(&one->handle, request + 8, sizeof one->handle);
	memcpy(one->data, request + HEADER, length);
	one->block.aio_offset = get64(request + 16);
	one->block.aio_nbytes = length;
	one->left = 1;
	if (is_primary) {
		char header[HEADER];
		memcpy(header, request, HEADER);
		put64(header + 8, one - writes);
		put(&other, header, HEADER);
		put(&other, one->data, length);
		one->left = 2;
	}
	return &one->block;
}

static void read_now(const char *request, uint32_t length) {
	static char data[LONGEST] __attribute__((aligned(BLOCK)));
	uint64_t handle;
	memcpy(&handle, request + 8, sizeof handle);
	if (pread(image, data, length, get64(request + 16)) != (ssize_t)length)
		fail("read");
	answer(handle);
	put(&guest, data, length);
}

/* All requests that have come whole; 0: the client has ended. */
static int take_requests(void) {
	struct iocb *begun[WRITES];
	size_t at = 0;
	int count = 0;
	while (guest.received - at >= HEADER) {
		const char *request = guest.in + at;
		const uint32_t kind = get32(request + 4) & 0xffff, length = get32(request + 24);
		if (kind == DISCONNECT)
			return 0;
		if (length > LONGEST)
			fail("request");
		if (kind == WRITE) {
			struct write *place = free_place();
			if (guest.received - at < HEADER + length || !place)
				break;
			begun[count++] = begin_write(place, request, length);
			at += length;
		} else if (kind == READ) {
			read_now(request, length);
		} else {
			uint64_t handle;
			memcpy(&handle, request + 8, sizeof handle);
			answer(handle);
		}
		at += HEADER;
	}
	used(&guest, at);
	send_due(&other);
	if (count && syscall(SYS_io_submit, context, count, begun) != count)
		fail("io_submit");
	return 1;
}

static void take_own(void) {
	struct io_event done[WRITES];
	uint64_t times;
	if (read(ended, &times, sizeof times) < 0)
		return;
	const int count = syscall(SYS_io_getevents, context, 0, WRITES, done, NULL);
	for (int i = 0; i < count; i++) {
		struct write *one = &writes[done[i].data];
		if (done[i].res != (int64_t)one->block.aio_nbytes)
			fail("write");
		has_it(one);
	}
}

static void take_answers(void) {
	size_t at = 0;
	if (!receive(&other))
		fail("the other node");
	for (; other.received - at >= ANSWER; at += ANSWER)
		has_it(&writes[get64(other.in + at + 8)]);
	used(&other, at);
}

static void serve(void) {
	struct pollfd all[3] = {{guest.socket, POLLIN, 0}, {ended, POLLIN, 0}, {other.socket, POLLIN, 0}};
	greet(&guest);
	for (;;) {
		poll(all, is_primary ? 3 : 2, -1);
		if (all[1].revents)
			take_own();
		if (is_primary && all[2].revents)
			take_answers();
		if ((all[0].revents && !receive(&guest)) || !take_requests())
			return;
		send_due(&guest);
	}
}

static void prepare(const char *path) {
	image = open(path, O_RDWR | O_DIRECT);
	size = lseek(image, 0, SEEK_END);
	ended = eventfd(0, EFD_NONBLOCK);
	if (image < 0 || ended < 0 || syscall(SYS_io_setup, WRITES, &context))
		fail(path);
	for (int i = 0; i < WRITES; i++) {
		if (posix_memalign((void **)&writes[i].data, BLOCK, LONGEST))
			fail("memory");
		writes[i].block = (struct iocb){
			.aio_fildes = image, .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_buf = (uint64_t)writes[i].data, .aio_data = i,
			.aio_flags = IOCB_FLAG_RESFD, .aio_resfd = ended};
	}
}

int main(int words, char **word) {
	const int yes = 1;
	if (words < 3)
		return 2;
	is_primary = words > 3;
	prepare(word[1]);
	struct sockaddr_in place = {
		.sin_family = AF_INET, .sin_port = htons(atoi(word[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un door = {.sun_family = AF_UNIX};
	const int between = socket(AF_INET, SOCK_STREAM, 0);
	int listening = between;
	if (is_primary) {
		other.socket = between;
		if (connect(between, (void *)&place, sizeof place))
			fail("the other node");
		setsockopt(between, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		choose_disk(&other);
		listening = socket(AF_UNIX, SOCK_STREAM, 0);
		strncpy(door.sun_path, word[3], sizeof door.sun_path - 1);
		if (bind(listening, (void *)&door, sizeof door))
			fail(word[3]);
	} else {
		setsockopt(between, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
		if (bind(between, (void *)&place, sizeof place))
			fail(word[2]);
	}
	listen(listening, 4);
	while ((guest.socket = accept(listening, NULL, NULL)) >= 0) {
		setsockopt(guest.socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		guest.received = guest.due = 0;
		serve();
		close(guest.socket);
	}
	return 1;
}
