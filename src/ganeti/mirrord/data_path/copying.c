/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the other copy lacks, a bit for each part of the image, and making it equal: parts are read and sent while the
 * guest goes on. A part's bit is cleared when it is on its way, and set again where that fails.
 */
#include "storage.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 1 << 24, COPY_BYTES = 256 << 10, HOLE_BYTES = 32 << 20 };
static const double AGAIN_S = 1.0;

uint64_t copy_rate;
static uint64_t *bits;
static uint64_t parts, lacking, cursor, part_bytes, noted_size;
static uint64_t bytes_in_all, bytes_on_the_way;
static double not_before_s;
/* What was copied may be in a cache of the other node's disk, and the guest was told that it is durable. */
static enum { DURABLE, TO_FLUSH, FLUSHING } flushing;

static uint64_t least(uint64_t one, uint64_t other) {
	return one < other ? one : other;
}

static bool is_set(uint64_t part) {
	return bits[part / 64] >> part % 64 & 1;
}

static void set(uint64_t part) {
	if (is_set(part))
		return;
	bits[part / 64] |= 1ull << part % 64;
	lacking++;
}

static void clear(uint64_t part) {
	if (!is_set(part))
		return;
	bits[part / 64] &= ~(1ull << part % 64);
	lacking--;
}

void copying_forget(void) {
	free(bits);
	bits = NULL;
	parts = lacking = cursor = bytes_in_all = 0;
}

bool copying_prepare(const char *what) {
	if (strcmp(what, "kept") || far_state != LOST || !bits || noted_size != image_size) {
		copying_forget();
		noted_size = image_size;
		for (part_bytes = BLOCK; part_bytes < COPY_BYTES && image_size > part_bytes * MOST_PARTS;)
			part_bytes *= 2;
		parts = (image_size + part_bytes - 1) / part_bytes;
		bits = calloc(parts / 64 + 1, sizeof *bits);
		if (!bits)
			return false;
		if (strcmp(what, "none"))
			copying_mark(0, image_size);
	}
	not_before_s = 0;
	flushing = TO_FLUSH;
	bytes_in_all = lacking * part_bytes;
	return true;
}

void copying_mark(uint64_t offset, uint64_t length) {
	if (!bits || !length)
		return;
	const uint64_t before = lacking, last = least((offset + length - 1) / part_bytes, parts - 1);
	for (uint64_t part = offset / part_bytes; part <= last; part++)
		set(part);
	bytes_in_all += (lacking - before) * part_bytes;
}

void copying_done(uint64_t offset, uint64_t length) {
	if (!bits || !lacking)
		return;
	const uint64_t after = offset + length == image_size ? parts : (offset + length) / part_bytes;
	for (uint64_t part = (offset + part_bytes - 1) / part_bytes; part < after; part++)
		clear(part);
}

static uint64_t next_lacking(uint64_t from) {
	for (uint64_t part = from; part < parts;) {
		const uint64_t word = bits[part / 64] >> part % 64;
		if (word)
			return part + __builtin_ctzll(word);
		part = (part / 64 + 1) * 64;
	}
	return parts;
}

/* So much is to be copied at once: little where the rate is low. */
static uint64_t most_at_once(void) {
	uint64_t most = copy_rate ? least(COPY_BYTES, copy_rate / 8 / part_bytes * part_bytes) : COPY_BYTES;
	return most < part_bytes ? part_bytes : most;
}

/* The next run of parts: data, or a hole that may be longer. Its bits are cleared. */
static struct request *take_run(void) {
	cursor = next_lacking(cursor);
	if (cursor == parts)
		cursor = next_lacking(0);
	const uint64_t offset = cursor * part_bytes;
	bool is_hole;
	const uint64_t extent = image_extent(offset, image_size, &is_hole);
	uint64_t most = least(is_hole ? HOLE_BYTES : most_at_once(), extent > offset ? extent - offset : part_bytes);
	if (is_hole)
		most = most / part_bytes * part_bytes;
	if (most < part_bytes)
		most = part_bytes;
	struct request *copy = copy_new(is_hole ? part_bytes : least(most, COPY_BYTES));
	if (!copy)
		return NULL;
	uint64_t end = cursor;
	while (end < parts && is_set(end) && (end - cursor + 1) * part_bytes <= most)
		clear(end++);
	copy->offset = offset;
	copy->length = least(end * part_bytes, image_size) - offset;
	bytes_on_the_way += copy->length;
	cursor = end;
	return copy;
}

void copying_go(void) {
	while (far_state == WORKS && lacking) {
		if (now_s() < not_before_s) {
			wake_at(not_before_s);
			return;
		}
		struct request *copy = take_run();
		if (!copy)
			return;
		flushing = TO_FLUSH;
		request_come(copy);
	}
	if (far_state == WORKS && !lacking && !bytes_on_the_way && flushing == TO_FLUSH) {
		flushing = FLUSHING;
		far_flush_copied();
	}
}

void copying_flushed(void) {
	if (flushing == FLUSHING)
		flushing = DURABLE;
}

static void give_up(struct request *copy) {
	const uint64_t before = bytes_in_all;
	copying_mark(copy->offset, copy->length);
	bytes_in_all = before;
	bytes_on_the_way -= copy->length;
	request_free(copy);
}

void copying_start(struct request *copy) {
	if (far_state != WORKS) {
		give_up(copy);
	} else if (image_is_hole(copy->offset, copy->length)) {
		copy->far_due = true;
		far_zero(copy);
	} else if (copy->length > copy->room) { /* it was a hole a moment ago */
		give_up(copy);
	} else {
		const double now = now_s();
		if (copy_rate)
			not_before_s = (not_before_s > now ? not_before_s : now) + (double)copy->length / copy_rate;
		copy->own_due = true;
		image_read(copy);
	}
}

void copying_read(struct request *copy) {
	if (copy->error) {
		say("a part cannot be copied: %s (at %llu)", strerror(copy->error), (unsigned long long)copy->offset);
		not_before_s = now_s() + AGAIN_S;
	}
	if (copy->error || far_state != WORKS) {
		give_up(copy);
		return;
	}
	copy->far_due = true;
	far_write(copy);
}

void copying_ended(struct request *copy) {
	bytes_on_the_way -= copy->length;
	request_free(copy);
}

bool copying_is_equal(void) {
	return far_state == WORKS && !lacking && !bytes_on_the_way && flushing == DURABLE;
}

void copying_progress(uint64_t *done, uint64_t *total) {
	const uint64_t left = lacking * part_bytes + bytes_on_the_way;
	*total = bytes_in_all > left ? bytes_in_all : left;
	*done = *total - left;
}
