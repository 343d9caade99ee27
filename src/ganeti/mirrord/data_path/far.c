/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The copy on the other node: each write goes there, and its answer comes from there. The other node is lost when the
 * connection ends, when an answer tells of an error, and when it is silent while an answer is due. What it may lack is
 * noted before ganeti-mirrord is told, and until that one has written the loss down no write is answered.
 */
#include "storage.h"

#include <stdio.h>
#include <string.h>

#ifndef SLOW_S
#define SLOW_S 10.0
#endif

enum { HEADER = 28, ANSWER = 16 };
enum { NBD_WRITE = 1, NBD_DISCONNECT, NBD_FLUSH, NBD_ZEROES = 6 };
enum { FUA = 1, NO_HOLE = 2 };
static const uint32_t REQUEST_MAGIC = 0x25609513, SIMPLE_MAGIC = 0x67446698;
static const uint64_t LAST_FLUSH = UINT64_MAX, COPIED_FLUSH = UINT64_MAX - 1, PING = UINT64_MAX - 2;
static const double SILENCE_S = 0.8, PING_S = 0.3, SEARCH_S = 0.5;

enum far_state far_state = ALONE;
bool loss_is_noted = true;
struct channel far_channel = {.socket = -1, .has_ended = true};
enum last_flush far_last_flush = NONE;
/* A flush, and making parts zero, may take a disk its time: that the other node lives is asked with a ping meanwhile. */
static unsigned answers_due, slow_due; /* among them: */
static unsigned pings_due, copied_flushes_due;
static double heard_s, slow_heard_s, pinged_s, searched_s;
static bool is_forgiven;

void far_attach(int socket, SSL *tls) {
	channel_open(&far_channel, socket, tls);
	far_state = WORKS;
	far_last_flush = NONE;
	answers_due = slow_due = pings_due = copied_flushes_due = 0;
	requests_mark_begun();
}

static bool is_slow(uint16_t flags, uint16_t kind, uint64_t cookie) {
	return (kind != NBD_WRITE || flags & FUA) && cookie != PING;
}

static void put_request(uint16_t flags, uint16_t kind, uint64_t cookie, uint64_t offset, uint32_t length) {
	char header[HEADER];
	if (cookie < REQUESTS + COPIES)
		requests[cookie].far_s = now_s();
	put32(header, REQUEST_MAGIC);
	put16(header + 4, flags);
	put16(header + 6, kind);
	put64(header + 8, cookie);
	put64(header + 16, offset);
	put32(header + 24, length);
	channel_put(&far_channel, header, sizeof header);
	if (kind == NBD_DISCONNECT)
		return;
	if (is_slow(flags, kind, cookie) && !slow_due++)
		slow_heard_s = pinged_s = now_s();
	else if (!is_slow(flags, kind, cookie) && !answers_due++)
		heard_s = now_s();
}

void far_write(struct request *request) {
	request->far_is_slow = request->is_durable;
	put_request(request->is_durable ? FUA : 0, NBD_WRITE, request - requests, request->offset, request->length);
	channel_put(&far_channel, request->data, request->length);
}

void far_zero(struct request *request) {
	request->far_is_slow = true;
	const uint16_t flags = (request->keeps_space ? NO_HOLE : 0) | (request->is_durable ? FUA : 0);
	put_request(flags, NBD_ZEROES, request - requests, request->offset, request->length);
}

void far_flush(struct request *request) {
	request->far_is_slow = true;
	put_request(0, NBD_FLUSH, request - requests, 0, 0);
}

void far_begin_last_flush(void) {
	far_last_flush = DUE;
	put_request(0, NBD_FLUSH, LAST_FLUSH, 0, 0);
}

void far_flush_copied(void) {
	copied_flushes_due++;
	put_request(0, NBD_FLUSH, COPIED_FLUSH, 0, 0);
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

static bool is_due(uint64_t cookie) {
	if (cookie < REQUESTS + COPIES)
		return requests[cookie].far_due;
	if (cookie == PING)
		return pings_due;
	return cookie == LAST_FLUSH ? far_last_flush == DUE : cookie == COPIED_FLUSH && copied_flushes_due;
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
	struct request *request = cookie < REQUESTS + COPIES ? &requests[cookie] : NULL;
	const bool was_slow = request ? request->far_is_slow : cookie != PING;
	unsigned *due = was_slow ? &slow_due : &answers_due;
	if (!is_due(cookie))
		return "it answers what was not asked";
	--*due;
	if (was_slow)
		slow_heard_s = heard_s;
	if (request)
		request_far_ended(request);
	else if (cookie == LAST_FLUSH)
		far_last_flush = DONE;
	else if (cookie == PING)
		pings_due--;
	else if (!--copied_flushes_due)
		copying_flushed();
	return NULL;
}

void far_take(void) {
	if (far_state != WORKS)
		return;
	if (channel_fill(&far_channel)) {
		heard_s = now_s();
		is_forgiven = false;
	}
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
	requests_lose_far();
}

/* Whether one request is without an answer for long, while others are answered. */
static bool has_forgotten_one(double now) {
	for (const struct request *request = requests; request < requests + REQUESTS + COPIES; request++)
		if (request->far_due && now - request->far_s > SLOW_S)
			return true;
	return false;
}

/* Whether the other node may still be waited for. */
static bool lives(double now) {
	if (now - searched_s > SEARCH_S) {
		searched_s = now;
		if (has_forgotten_one(now))
			return false;
	}
	if (answers_due && now - heard_s > SILENCE_S)
		return false;
	if (slow_due && now - slow_heard_s > SLOW_S)
		return false;
	if (answers_due) {
		wake_at(heard_s + SILENCE_S + 0.001);
	} else if (slow_due && now - pinged_s > PING_S) {
		pinged_s = now;
		pings_due++;
		put_request(0, NBD_ZEROES, PING, 0, 0);
		wake_at(heard_s + SILENCE_S + 0.001);
	} else if (slow_due) {
		wake_at(pinged_s + PING_S + 0.001);
	}
	return true;
}

void far_forgive(void) {
	if (is_forgiven) /* once: where it is this program that is slow each time, a node that hangs is found all the same */
		return;
	is_forgiven = true;
	heard_s = slow_heard_s = pinged_s = now_s();
	for (struct request *request = requests; request < requests + REQUESTS + COPIES; request++)
		request->far_s = heard_s;
}

void far_watch(void) {
	if (far_state != WORKS)
		return;
	bool still_lives = lives(now_s());
	if (!still_lives) {
		far_take();
		if (has_stood_still())
			far_forgive();
		still_lives = lives(now_s());
	}
	if (far_state != WORKS)
		return;
	channel_send(&far_channel);
	if (far_channel.has_ended)
		far_lose("the connection broke");
	else if (!still_lives)
		far_lose("it does not answer");
}
