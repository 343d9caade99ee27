/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Runs in a guest: 4k writes past its cache, DEPTH at a time, one behind the other on the disk.
 * Prints "WRITES DISK DEPTH MICROSECONDS", the time a write takes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, MOST_AT_ONCE = 64, BLOCKS = 16384 };

static int fail(const char *what) {
	perror(what);
	return 1;
}

static double now_s(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int words, char **word) {
	struct iocb blocks[MOST_AT_ONCE], *due[MOST_AT_ONCE];
	struct io_event ended[MOST_AT_ONCE];
	aio_context_t context = 0;
	void *data;
	if (words != 4)
		return 2;
	const int disk = open(word[1], O_WRONLY | O_DIRECT), depth = atoi(word[2]), count = atoi(word[3]);
	if (disk < 0 || depth < 1 || depth > MOST_AT_ONCE || syscall(SYS_io_setup, depth, &context) < 0)
		return fail(word[1]);
	if (posix_memalign(&data, BLOCK, BLOCK))
		return fail("memory");
	memset(data, 7, BLOCK);
	memset(blocks, 0, sizeof blocks);
	for (int i = 0; i < depth; i++) {
		blocks[i].aio_fildes = disk;
		blocks[i].aio_lio_opcode = IOCB_CMD_PWRITE;
		blocks[i].aio_buf = (__u64)(unsigned long)data;
		blocks[i].aio_nbytes = BLOCK;
		blocks[i].aio_data = i;
		due[i] = &blocks[i];
	}
	int asked = 0, done = 0, ready = depth;
	const double begun_s = now_s();
	while (done < count) {
		for (int i = 0; i < ready; i++)
			due[i]->aio_offset = (__s64)(asked++ % BLOCKS) * BLOCK;
		if (ready && syscall(SYS_io_submit, context, ready, due) != ready)
			return fail("io_submit");
		const int some = syscall(SYS_io_getevents, context, 1, depth, ended, NULL);
		if (some < 1)
			return fail("io_getevents");
		ready = 0;
		for (int i = 0; i < some; i++, done++) {
			if (ended[i].res != BLOCK)
				return fail("write");
			if (asked + ready < count)
				due[ready++] = &blocks[ended[i].data];
		}
	}
	printf("WRITES %s %d %.1f\n", word[1], depth, (now_s() - begun_s) / count * 1e6);
	return 0;
}
