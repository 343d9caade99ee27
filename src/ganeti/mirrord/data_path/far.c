/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The copy on the other node: each write goes there, and its answer comes from there. The other node is lost when the
 * connection ends, when an answer tells of an error, and when it is silent while an answer is due. What it may lack is
 * noted before ganeti-mirrord is told, and until that one has written the loss down no write is answered.
 */
#include "storage.h"

#include <stdio.h>
#include <string.h>

enum { HEADER = 28, ANSWER = 16 };
enum { NBD_WRITE = 1, NBD_DISCONNECT, NBD_FLUSH, NBD_ZEROES = 6 };
enum { FUA = 1, NO_HOLE = 2 };
static const uint32_t REQUEST_MAGIC = 0x25609513, SIMPLE_MAGIC = 0x67446698;
static const uint64_t LAST_FLUSH = UINT64_MAX;
static const double SILENCE_S = 0.8, ZEROES_S = 10.0;

enum far_state far_state = ALONE;
bool loss_is_noted = true;
struct channel far_channel = {.socket = -1, .has_ended = true};
enum last_flush far_last_flush = NONE;
static unsigned answers_due, zeroes_due; /* of the latter nothing is expected soon: freeing parts takes its time */
static double heard_s, zeroes_heard_s;

void far_attach(int socket, SSL *tls) {
	channel_open(&far_channel, socket, tls);
	far_state = WORKS;
	far_last_flush = NONE;
	answers_due = zeroes_due = 0;
	requests_mark_begun();
}

static void put_request(uint16_t flags, uint16_t kind, uint64_t cookie, uint64_t offset, uint32_t length) {
	char header[HEADER];
	put32(header, REQUEST_MAGIC);
	put16(header + 4, flags);
	put16(header + 6, kind);
	put64(header + 8, cookie);
	put64(header + 16, offset);
	put32(header + 24, length);
	channel_put(&far_channel, header, sizeof header);
	if (kind == NBD_ZEROES && !zeroes_due++)
		zeroes_heard_s = now_s();
	else if (kind != NBD_ZEROES && kind != NBD_DISCONNECT && !answers_due++)
		heard_s = now_s();
}

void far_write(struct request *request) {
	put_request(request->is_durable ? FUA : 0, NBD_WRITE, request - requests, request->offset, request->length);
	channel_put(&far_channel, request->data, request->length);
}

void far_zero(struct request *request) {
	request->far_zeroes = true;
	put_request(request->keeps_space ? NO_HOLE : 0, NBD_ZEROES, request - requests, request->offset, request->length);
}

void far_flush(struct request *request) {
	put_request(0, NBD_FLUSH, request - requests, 0, 0);
}

void far_begin_last_flush(void) {
	far_last_flush = DUE;
	put_request(0, NBD_FLUSH, LAST_FLUSH, 0, 0);
}

void far_lose(const char *why) {
	if (far_state != WORKS)
		return;
	far_state = LOST;
	loss_is_noted = false;
	channel_close(&far_channel);
	say("the copy of the other node is lost: %s", why);
	requests_lose_far();
	commands_tell_loss(why);
}

/* Take one answer; why the other node is lost by it, or NULL. */
static const char *take_answer(const char *bytes) {
	static char why[SENTENCE];
	const uint64_t cookie = get64(bytes + 8);
	if (get32(bytes) != SIMPLE_MAGIC)
		return "it answers with what is not NBD";
	if (get32(bytes + 4)) {
		snprintf(why, sizeof why, "it answers with error %u: %s", get32(bytes + 4), strerror(get32(bytes + 4)));
		return why;
	}
	if (cookie == LAST_FLUSH && far_last_flush == DUE) {
		answers_due--;
		far_last_flush = DONE;
	} else if (cookie < REQUESTS + COPIES && requests[cookie].far_due) {
		--*(requests[cookie].far_zeroes ? &zeroes_due : &answers_due);
		request_far_ended(&requests[cookie]);
	} else {
		return "it answers what was not asked";
	}
	return NULL;
}

void far_take(void) {
	if (far_state != WORKS)
		return;
	if (channel_fill(&far_channel))
		heard_s = zeroes_heard_s = now_s();
	while (channel_held(&far_channel) >= ANSWER) {
		const char *why = take_answer(channel_bytes(&far_channel));
		if (why) {
			far_lose(why);
			return;
		}
		channel_used(&far_channel, ANSWER);
	}
	if (far_channel.has_ended)
		far_lose("it has ended the connection");
}

void far_leave(void) {
	if (far_state == WORKS) {
		put_request(0, NBD_DISCONNECT, 0, 0, 0);
		channel_send(&far_channel);
		channel_close(&far_channel);
	}
	far_state = ALONE;
	copying_forget();
}

void far_watch(void) {
	if (far_state != WORKS)
		return;
	channel_send(&far_channel);
	if (far_channel.has_ended)
		far_lose("the connection broke");
	else if ((answers_due && now_s() - heard_s > SILENCE_S) || (zeroes_due && now_s() - zeroes_heard_s > ZEROES_S))
		far_lose("it does not answer");
	else if (answers_due)
		wake_at(heard_s + SILENCE_S + 0.001);
	else if (zeroes_due)
		wake_at(zeroes_heard_s + ZEROES_S + 0.001);
}
