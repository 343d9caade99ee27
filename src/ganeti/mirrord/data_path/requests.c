/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What clients have asked for and has not ended. A write goes to the own image and to the other node at once, and has
 * ended when both have it. Requests that overlap are carried out one after the other: the copies could differ otherwise.
 */
#include "storage.h"

#include <stdlib.h>
#include <string.h>

struct request requests[REQUESTS + COPIES];
static uint64_t last_order;
static size_t bytes_held;
static unsigned waiting;
static bool gate_is_closed;

static struct request *first_free(int from, int to) {
	for (int i = from; i < to; i++)
		if (requests[i].kind == FREE)
			return &requests[i];
	return NULL;
}

static bool give_data(struct request *request, size_t bytes) {
	if (bytes <= request->room)
		return true;
	const size_t room = bytes < SMALL ? SMALL : bytes;
	void *data;
	if (posix_memalign(&data, BLOCK, room))
		return false;
	free(request->data);
	request->data = data;
	request->room = room;
	return true;
}

static void clear(struct request *request) {
	char *data = request->data;
	const size_t room = request->room;
	memset(request, 0, sizeof *request);
	request->data = data;
	request->room = room;
}

bool requests_have_room(bool of_other_node) {
	const size_t most = of_other_node ? IN_FLIGHT + 2 * LONGEST : IN_FLIGHT;
	return bytes_held + LONGEST <= most && first_free(0, of_other_node ? REQUESTS : OWN_REQUESTS);
}

struct request *request_new(uint32_t data_bytes, bool of_other_node) {
	struct request *request = requests_have_room(of_other_node) ? first_free(0, REQUESTS) : NULL;
	if (!request || !give_data(request, data_bytes))
		return NULL;
	clear(request);
	request->length = data_bytes;
	return request;
}

struct request *copy_new(uint32_t data_bytes) {
	struct request *copy = first_free(REQUESTS, REQUESTS + COPIES);
	if (!copy || !give_data(copy, data_bytes))
		return NULL;
	clear(copy);
	copy->kind = COPY;
	return copy;
}

static bool request_writes(const struct request *request) {
	return request->kind == WRITE || request->kind == ZERO || request->kind == COPY;
}

static bool has_data(const struct request *request) {
	return request->kind == WRITE || request->kind == READ;
}

static bool overlap(const struct request *one, const struct request *other) {
	return one->offset < other->offset + other->length && other->offset < one->offset + one->length;
}

static bool may_start(const struct request *request) {
	if (request->kind == READ)
		return true;
	if (gate_is_closed)
		return false;
	for (const struct request *other = requests; other < requests + REQUESTS + COPIES; other++)
		if (other->has_come && !other->is_held && other->order < request->order && request_writes(other) &&
			request_writes(request) && overlap(other, request))
			return false;
	return true;
}

static void start(struct request *request) {
	request->has_started = true;
	if (request->kind == COPY) {
		copying_start(request);
		return;
	}
	request->own_due = true;
	request->far_due = far_state == WORKS && request->kind != READ;
	if (far_state != WORKS && request_writes(request))
		copying_mark(request->offset, request->length);
	switch (request->kind) {
	case READ:
		image_read(request);
		break;
	case WRITE:
		if (request->far_due)
			far_write(request);
		image_write(request, request->is_durable);
		break;
	case ZERO:
		if (request->far_due)
			far_zero(request);
		blocking_zero(request);
		break;
	default:
		if (request->far_due)
			far_flush(request);
		image_flush(request);
	}
}

static void start_waiting(void) {
	for (bool has_moved = true; waiting && has_moved;) {
		has_moved = false;
		for (struct request *request = requests; request < requests + REQUESTS + COPIES; request++) {
			if (request->has_come && !request->has_started && may_start(request)) {
				waiting--;
				start(request);
				has_moved = true;
			}
		}
	}
}

void request_come(struct request *request) {
	request->has_come = true;
	if (has_data(request))
		bytes_held += request->length;
	request->order = ++last_order;
	if (may_start(request))
		start(request);
	else
		waiting++;
}

/* What is held for an answer needs its data no more, and reads go on meanwhile. */
static void give_data_back(struct request *request) {
	if (request->has_come && !request->is_held && has_data(request))
		bytes_held -= request->length;
	if (request->room > SMALL) {
		free(request->data);
		request->data = NULL;
		request->room = 0;
	}
}

void request_free(struct request *request) {
	if (request->client)
		request->client->begun--;
	give_data_back(request);
	clear(request);
}

static void hold(struct request *request) {
	give_data_back(request);
	request->is_held = true;
}

static void answer(struct request *request) {
	if (request->client)
		client_answer(request->client, request);
	request_free(request);
}

static void end_if_done(struct request *request) {
	if (request->own_due || request->far_due)
		return;
	if (request->kind == COPY) {
		copying_ended(request);
	} else {
		if (request_writes(request) && request->error)
			copying_mark(request->offset, request->length); /* nobody knows what is here: the other one gets that */
		else if (request_writes(request) && request->far_has)
			copying_done(request->offset, request->length);
		if (request->kind == READ || loss_is_noted)
			answer(request);
		else
			hold(request);
	}
	start_waiting();
}

void request_own_ended(struct request *request, int error) {
	request->own_due = false;
	if (error)
		request->error = error;
	if (request->kind == COPY) {
		copying_read(request);
		start_waiting();
	} else {
		end_if_done(request);
	}
}

void request_far_ended(struct request *request) {
	request->far_due = false;
	request->far_has = true;
	end_if_done(request);
}

void requests_lose_far(void) {
	for (struct request *request = requests; request < requests + REQUESTS + COPIES; request++) {
		if (!request->far_due)
			continue;
		request->far_due = false;
		if (request_writes(request))
			copying_mark(request->offset, request->length);
		end_if_done(request);
	}
}

void requests_mark_begun(void) {
	for (struct request *request = requests; request < requests + REQUESTS; request++) {
		if (!request->has_started || !request->own_due || !request_writes(request))
			continue;
		request->far_has = false; /* a copy before this one had it */
		copying_mark(request->offset, request->length);
	}
}

void requests_release(void) {
	for (struct request *request = requests; request < requests + REQUESTS; request++)
		if (request->is_held)
			answer(request);
}

void requests_close_gate(bool is_closed) {
	gate_is_closed = is_closed;
	if (!is_closed)
		start_waiting();
}

bool requests_are_still(void) {
	for (const struct request *request = requests; request < requests + REQUESTS + COPIES; request++)
		if (request->kind != READ && (request->own_due || request->far_due))
			return false;
	return true;
}
