/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The storage daemon of one mirrored disk: it serves the image by NBD and, on the primary node, sends each write to the
 * other node at once. ganeti-mirrord decides, by the commands of `commands.c`.
 *
 * One thread waits for everything in `main.c`. Others do what may block, and give back a result: agreeing on TLS
 * (`handshake.c`), and freeing parts of the image (`blocking.c`).
 */
#ifndef STORAGE_H
#define STORAGE_H

#define _GNU_SOURCE
#include <linux/aio_abi.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	BLOCK = 4096,            /* what a request is a multiple of: O_DIRECT always works */
	LONGEST = 1 << 20,       /* of a request with data */
	SMALL = 1 << 16,         /* data of this size stay with a request when it has ended */
	CLIENTS = 64,
	REQUESTS = 160,          /* of clients, at once */
	OWN_REQUESTS = 128,      /* of clients of this node: the other one may have as many under way, and its copies */
	COPIES = 4,              /* parts on their way to the other node, at once */
	IN_FLIGHT = 6 << 20,     /* bytes of data that clients' requests hold, at once */
	LINE = 64 << 10,         /* of a command, and of the first line between nodes */
	NAME = 256,
	SENTENCE = 512,
};

/* main.c */
extern const char *image_path;
double now_s(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool has_stood_still(void); /* since this program last waited */
void wake_at(double when_s); /* the loop goes round at that time, if not before */
int listen_at(const char *path, int kind); /* the socket; -1 where nobody can be listened to */

/* bytes.c: numbers as NBD has them */
void put16(void *place, uint16_t number);
void put32(void *place, uint32_t number);
void put64(void *place, uint64_t number);
uint16_t get16(const void *place);
uint32_t get32(const void *place);
uint64_t get64(const void *place);

/* channel.c: a connection, with or without TLS, that never blocks */
struct channel {
	int socket;
	SSL *tls;
	bool has_ended, has_more;
	char *in; /* of IN_BYTES */
	size_t taken, received; /* of in: used already, filled */
	char *out;
	size_t sent, due, room; /* of out: sent already, filled, allocated */
	uint64_t by_key;        /* bytes that were sent since the key of TLS was renewed */
};
enum { IN_BYTES = 64 << 10 };
void channel_open(struct channel *channel, int socket, SSL *tls);
void channel_close(struct channel *channel);
bool channel_fill(struct channel *channel); /* receive what there is; true where something came */
size_t channel_receive(struct channel *channel, char *place, size_t count); /* not what `in` holds */
size_t channel_held(const struct channel *channel);
const char *channel_bytes(const struct channel *channel); /* that are held */
void channel_used(struct channel *channel, size_t count);
void channel_put(struct channel *channel, const void *bytes, size_t count);
void channel_send(struct channel *channel);
bool channel_has_more(const struct channel *channel); /* to be received without a new event */
short channel_events(const struct channel *channel, bool may_receive);

/* image.c */
extern uint64_t image_size;
extern int image_events; /* readable when something has ended */
struct request;
bool image_open(const char *path);
bool image_resize(uint64_t size);
void image_read(struct request *request);
void image_write(struct request *request, bool is_durable);
void image_flush(struct request *request);
void image_submit(void); /* what was begun since the last time */
void image_take_ended(void);
bool image_sync(void);
bool zero_range(uint64_t offset, uint64_t length, bool keep_space);
bool image_is_hole(uint64_t offset, uint64_t length);
uint64_t image_extent(uint64_t offset, uint64_t end, bool *is_hole); /* the end of the data or hole at offset */

/* blocking.c: making parts zero, by a thread */
extern int blocking_events;
bool blocking_start(void);
void blocking_zero(struct request *request);
void blocking_take_ended(void);

/* requests.c */
enum kind { FREE, READ, WRITE, ZERO, FLUSH, COPY };
struct client;
struct request {
	struct iocb block; /* first: the kernel gives its address back */
	enum kind kind;
	struct client *client; /* NULL: this program's own, or of a client that is gone */
	uint64_t cookie;       /* the client's, in its own byte order */
	uint64_t offset;
	uint32_t length;
	uint32_t received;
	bool is_durable, keeps_space;
	bool has_come;    /* all data are there, so its order is fixed */
	bool has_started; /* before that it waits for one that it overlaps with */
	bool own_due, far_due;
	bool far_has;     /* the other node has answered that it has it */
	double far_s;     /* when the other node was asked */
	bool far_is_slow; /* a flush, a durable write, or making a part zero */
	bool is_held; /* has ended, but the loss of the other copy is not noted */
	int error;
	uint64_t order;
	char *data;
	size_t room;
	struct request *next; /* in a queue of blocking.c */
};
extern struct request requests[REQUESTS + COPIES];
struct request *request_new(uint32_t data_bytes, bool of_other_node);
struct request *copy_new(uint32_t data_bytes);
void request_free(struct request *request);
void request_come(struct request *request);
void request_own_ended(struct request *request, int error);
void request_far_ended(struct request *request);
void requests_release(void);
void requests_close_gate(bool is_closed); /* while closed, no write is started */
bool requests_are_still(void);            /* no write is on its way */
bool requests_have_room(bool of_other_node);
void requests_mark_begun(void); /* the other copy lacks what is on its way to this one alone */
void requests_lose_far(void);

/* clients.c: the server of NBD, for a guest and for the other node's daemon */
extern char export_name[NAME];
struct client {
	struct channel channel;
	bool is_other_node;
	bool is_ending; /* nothing more is taken from it */
	bool is_cut;    /* nor waited that it takes its answers */
	bool is_blocked; /* a request that has come waits for room */
	int state;
	bool has_no_zeroes, is_structured, has_allocation;
	unsigned begun; /* requests that have not ended */
	struct request *coming; /* whose data are being received */
	struct client *next;
};
extern struct client *clients;
struct client *client_new(int socket, SSL *tls, const char *line);
void client_take(struct client *client, bool is_ready);
bool client_may_receive(const struct client *client);
void client_answer(struct client *client, const struct request *request);
void clients_end(bool of_other_node);
bool clients_are_gone(bool of_other_node);
void clients_sweep(void);

/* far.c: the copy on the other node */
enum far_state { ALONE, WORKS, LOST };
extern enum far_state far_state;
extern bool loss_is_noted;
extern struct channel far_channel;
void far_attach(int socket, SSL *tls);
void far_write(struct request *request);
void far_zero(struct request *request);
void far_flush(struct request *request);
void far_take(void);
void far_lose(const char *why);
void far_leave(void);
void far_watch(void);
void far_forgive(void); /* this program stood still: the other node has its time once more */
enum last_flush { NONE, DUE, DONE };
extern enum last_flush far_last_flush; /* before the other copy is left as an equal one */
void far_begin_last_flush(void);
void far_flush_copied(void);

/* copying.c: what the other copy lacks, and making it equal */
extern uint64_t copy_rate;
bool copying_prepare(const char *what); /* whole, none or kept */
void copying_forget(void);
void copying_mark(uint64_t offset, uint64_t length);
void copying_done(uint64_t offset, uint64_t length);
void copying_go(void);
void copying_start(struct request *copy);
void copying_read(struct request *copy);
void copying_ended(struct request *copy);
void copying_flushed(void);
bool copying_is_equal(void);
void copying_progress(uint64_t *done, uint64_t *total);

/* handshake.c: agreeing on TLS and the first line, in a thread each */
struct handshake {
	bool is_server;
	unsigned number; /* of the command, or of the one that asks */
	char address[64], port[8], peer[NAME], uuid[80], certificate[1024], authority[1024], export[NAME], copy[8];
	uint64_t rate;
	uint64_t size; /* of the own image */
	char *line;    /* to be sent, or the one that has come; then the answer */
	char names[1024];
	_Atomic int socket; /* shut down from outside of the thread, never closed */
	SSL *tls;
	char error[SENTENCE]; /* empty where it went well */
	bool is_refused;      /* `line` is the answer then */
	double until_s;
	struct handshake *next;
};
extern int handshake_events;
bool handshake_prepare(void);
bool handshake_start(struct handshake *handshake);
struct handshake *handshake_take_ended(void);
void handshake_watch(void); /* end those whose time is over */
void handshake_free(struct handshake *handshake);

/* commands.c */
bool commands_listen(const char *path);
int commands_door(void);
int commands_client(void); /* -1 where there is none */
bool commands_accept(void); /* false where no descriptor is left */
void commands_take(void);
void commands_look(void); /* answer what was waited for */
void commands_tell_loss(const char *why);
void commands_handshake(struct handshake *handshake);

#endif
