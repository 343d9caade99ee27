/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A connection that never blocks, with its buffers; with TLS or without.
 */
#include "storage.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef KEY_BYTES
#define KEY_BYTES (64ull << 30) /* far less than RFC 8446 (5.5) allows for one key of AES-GCM */
#endif

enum { KEPT_BYTES = 256 << 10, RECORD_BYTES = 16 << 10 };

static void *or_die(void *memory) {
	if (!memory) {
		say("there is no memory left");
		abort();
	}
	return memory;
}

void channel_open(struct channel *channel, int socket, SSL *tls) {
	/* the handshake may have received more than it needed */
	*channel = (struct channel){.socket = socket, .tls = tls, .has_more = tls, .in = or_die(malloc(IN_BYTES))};
}

void channel_close(struct channel *channel) {
	if (channel->tls)
		SSL_free(channel->tls);
	if (channel->socket >= 0)
		close(channel->socket);
	free(channel->in);
	free(channel->out);
	*channel = (struct channel){.socket = -1, .has_ended = true};
}

static size_t receive_plain(struct channel *channel, char *place, size_t count) {
	const ssize_t some = recv(channel->socket, place, count, MSG_DONTWAIT);
	if (some > 0)
		return some;
	if (some == 0 || (errno != EAGAIN && errno != EINTR))
		channel->has_ended = true;
	return 0;
}

static size_t receive_tls(struct channel *channel, char *place, size_t count) {
	size_t total = 0;
	channel->has_more = false;
	while (total < count) {
		size_t some = 0;
		ERR_clear_error();
		if (SSL_read_ex(channel->tls, place + total, count - total, &some)) {
			total += some;
			if (!SSL_has_pending(channel->tls))
				break;
			continue;
		}
		const int why = SSL_get_error(channel->tls, 0);
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			channel->has_ended = true;
		return total;
	}
	/* a record that is not whole waits for the socket */
	channel->has_more = total == count && SSL_has_pending(channel->tls);
	return total;
}

size_t channel_receive(struct channel *channel, char *place, size_t count) {
	if (channel->has_ended || !count)
		return 0;
	return channel->tls ? receive_tls(channel, place, count) : receive_plain(channel, place, count);
}

bool channel_fill(struct channel *channel) {
	if (channel->taken) {
		channel->received -= channel->taken;
		memmove(channel->in, channel->in + channel->taken, channel->received);
		channel->taken = 0;
	}
	const size_t some = channel_receive(channel, channel->in + channel->received, IN_BYTES - channel->received);
	channel->received += some;
	return some > 0;
}

size_t channel_held(const struct channel *channel) {
	return channel->received - channel->taken;
}

const char *channel_bytes(const struct channel *channel) {
	return channel->in + channel->taken;
}

void channel_used(struct channel *channel, size_t count) {
	channel->taken += count;
	if (channel->taken == channel->received)
		channel->taken = channel->received = 0;
}

void channel_put(struct channel *channel, const void *bytes, size_t count) {
	if (channel->has_ended || !count)
		return;
	if (channel->due + count > channel->room) {
		if (channel->sent) {
			channel->due -= channel->sent;
			memmove(channel->out, channel->out + channel->sent, channel->due);
			channel->sent = 0;
		}
		while (channel->due + count > channel->room)
			channel->room = channel->room ? 2 * channel->room : RECORD_BYTES;
		channel->out = or_die(realloc(channel->out, channel->room));
	}
	memcpy(channel->out + channel->due, bytes, count);
	channel->due += count;
}

/* True where something was sent. */
static bool send_some(struct channel *channel) {
	const char *from = channel->out + channel->sent;
	const size_t left = channel->due - channel->sent;
	if (!channel->tls) {
		const ssize_t some = send(channel->socket, from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (some < 0 && errno != EAGAIN && errno != EINTR)
			channel->has_ended = true;
		channel->sent += some > 0 ? some : 0;
		return some > 0;
	}
	size_t some = 0;
	ERR_clear_error();
	if (channel->by_key > KEY_BYTES && SSL_key_update(channel->tls, SSL_KEY_UPDATE_NOT_REQUESTED))
		channel->by_key = 0;
	if (!SSL_write_ex(channel->tls, from, left < RECORD_BYTES ? left : RECORD_BYTES, &some)) {
		const int why = SSL_get_error(channel->tls, 0);
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			channel->has_ended = true;
		return false;
	}
	channel->sent += some;
	channel->by_key += some;
	return true;
}

void channel_send(struct channel *channel) {
	while (!channel->has_ended && channel->sent < channel->due)
		if (!send_some(channel))
			return;
	channel->sent = channel->due = 0;
	if (channel->room > KEPT_BYTES) {
		free(channel->out);
		channel->out = NULL;
		channel->room = 0;
	}
}

bool channel_has_more(const struct channel *channel) {
	return channel->has_more && !channel->has_ended;
}

short channel_events(const struct channel *channel, bool may_receive) {
	return (may_receive ? POLLIN : 0) | (channel->sent < channel->due ? POLLOUT : 0);
}
