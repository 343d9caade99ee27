/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The image file: reads, writes and flushes that the kernel carries out meanwhile. By the system calls themselves, for
 * libaio adds nothing to them.
 */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BEGUN = 2 * (REQUESTS + COPIES), PIECE = 32 << 20 };

uint64_t image_size;
int image_events = -1;
static int image = -1;
static aio_context_t context;
static struct iocb *begun[BEGUN];
static int begun_count;

bool image_open(const char *path) {
	image = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (image < 0) {
		say("it cannot be opened: %s", strerror(errno));
		return false;
	}
	const off_t end = lseek(image, 0, SEEK_END);
	image_size = end > 0 ? end / BLOCK * BLOCK : 0;
	image_events = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (end < 0 || image_events < 0 || syscall(SYS_io_setup, BEGUN, &context)) {
		say("the kernel refuses asynchronous work on it: %s; see /proc/sys/fs/aio-max-nr", strerror(errno));
		return false;
	}
	return true;
}

bool image_resize(uint64_t size) {
	if (ftruncate(image, size))
		return false;
	image_size = size;
	return true;
}

static void begin(struct request *request, int what, bool is_durable) {
	request->block = (struct iocb){
		.aio_fildes = image,
		.aio_lio_opcode = what,
		.aio_buf = what == IOCB_CMD_FDSYNC ? 0 : (uint64_t)(uintptr_t)request->data,
		.aio_nbytes = what == IOCB_CMD_FDSYNC ? 0 : request->length,
		.aio_offset = what == IOCB_CMD_FDSYNC ? 0 : request->offset,
		.aio_rw_flags = is_durable ? RWF_DSYNC : 0,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = image_events,
	};
	begun[begun_count++] = &request->block;
	if (begun_count == BEGUN)
		image_submit();
}

void image_read(struct request *request) {
	begin(request, IOCB_CMD_PREAD, false);
}

void image_write(struct request *request, bool is_durable) {
	begin(request, IOCB_CMD_PWRITE, is_durable);
}

void image_flush(struct request *request) {
	begin(request, IOCB_CMD_FDSYNC, false);
}

void image_submit(void) {
	struct iocb *now[BEGUN];
	while (begun_count) {
		/* what ends with an error at once may begin another one */
		const int count = begun_count;
		memcpy(now, begun, count * sizeof *now);
		begun_count = 0;
		for (int at = 0; at < count;) {
			const int taken = syscall(SYS_io_submit, context, (long)(count - at), now + at);
			if (taken > 0)
				at += taken;
			else if (errno != EINTR && errno != EAGAIN)
				request_own_ended((struct request *)now[at++], errno);
		}
	}
}

/* Of a part only, where a file system gets full: the rest tells why. */
static bool goes_on(struct request *request, uint64_t done) {
	struct iocb *block = &request->block;
	if (!done || done >= block->aio_nbytes || done % BLOCK)
		return false;
	block->aio_buf += done;
	block->aio_offset += done;
	block->aio_nbytes -= done;
	begun[begun_count++] = block;
	return true;
}

static void take_ended(struct request *request, int64_t result) {
	if (result < 0)
		request_own_ended(request, -result);
	else if ((uint64_t)result == request->block.aio_nbytes)
		request_own_ended(request, 0);
	else if (!goes_on(request, result))
		request_own_ended(request, EIO);
}

void image_take_ended(void) {
	struct io_event ended[64];
	uint64_t times;
	if (read(image_events, &times, sizeof times) < 0)
		return;
	for (int count = 64; count == 64;) {
		count = syscall(SYS_io_getevents, context, 0L, 64L, ended, NULL);
		for (int i = 0; i < count; i++)
			take_ended((struct request *)(uintptr_t)ended[i].obj, ended[i].res);
	}
}

uint64_t image_extent(uint64_t offset, uint64_t end, bool *is_hole) {
	const off_t data = lseek(image, offset, SEEK_DATA);
	*is_hole = data < 0 ? errno == ENXIO : (uint64_t)data > offset;
	if (*is_hole)
		return data < 0 || (uint64_t)data > end ? end : (uint64_t)data;
	const off_t hole = data < 0 ? -1 : lseek(image, offset, SEEK_HOLE);
	return hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
}

bool image_is_hole(uint64_t offset, uint64_t length) {
	bool is_hole;
	return image_extent(offset, offset + length, &is_hole) == offset + length && is_hole;
}

static bool write_zeroes(uint64_t offset, uint64_t length) {
	static const char zeroes[SMALL] __attribute__((aligned(BLOCK)));
	while (length) {
		const ssize_t some = pwrite(image, zeroes, length < SMALL ? length : SMALL, offset);
		if (some <= 0 && errno == EINTR)
			continue;
		if (some <= 0)
			return false;
		offset += some;
		length -= some;
	}
	return true;
}

static bool zero_piece(uint64_t offset, uint64_t length, bool keep_space) {
	const int how = keep_space ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	if (!fallocate(image, how, offset, length))
		return true;
	return (errno == EOPNOTSUPP || errno == ENODEV) && write_zeroes(offset, length);
}

bool zero_range(uint64_t offset, uint64_t length, bool keep_space) {
	/* in pieces: a file system has everybody wait who wants the file meanwhile */
	for (uint64_t piece; length; offset += piece, length -= piece) {
		piece = length < PIECE ? length : PIECE;
		if (!zero_piece(offset, piece, keep_space))
			return false;
	}
	return true;
}

bool image_sync(void) {
	return !fdatasync(image);
}
