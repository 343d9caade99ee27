/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A thread that makes parts of the image zero: freeing a large part may take seconds, and everything else goes on.
 */
#include "storage.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

int blocking_events = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_work = PTHREAD_COND_INITIALIZER;
static struct request *to_do, *ended;

static struct request *take(struct request **queue) {
	struct request *first = *queue;
	if (first)
		*queue = first->next;
	return first;
}

static void append(struct request **queue, struct request *request) {
	request->next = NULL;
	while (*queue)
		queue = &(*queue)->next;
	*queue = request;
}

static void *work(void *nothing) {
	(void)nothing;
	pthread_mutex_lock(&lock);
	for (;;) {
		struct request *request;
		while (!(request = take(&to_do)))
			pthread_cond_wait(&has_work, &lock);
		pthread_mutex_unlock(&lock);
		errno = 0;
		const bool went_well = zero_range(request->offset, request->length, request->keeps_space) &&
			(!request->is_durable || image_sync());
		request->error = went_well ? 0 : errno ? errno : EIO;
		pthread_mutex_lock(&lock);
		append(&ended, request);
		const uint64_t one = 1;
		(void)!write(blocking_events, &one, sizeof one);
	}
	return NULL;
}

bool blocking_start(void) {
	pthread_t thread;
	blocking_events = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return blocking_events >= 0 && !pthread_create(&thread, NULL, work, NULL);
}

void blocking_zero(struct request *request) {
	pthread_mutex_lock(&lock);
	append(&to_do, request);
	pthread_cond_signal(&has_work);
	pthread_mutex_unlock(&lock);
}

void blocking_take_ended(void) {
	uint64_t times;
	if (read(blocking_events, &times, sizeof times) < 0)
		return;
	for (;;) {
		pthread_mutex_lock(&lock);
		struct request *request = take(&ended);
		pthread_mutex_unlock(&lock);
		if (!request)
			return;
		request_own_ended(request, request->error);
	}
}
