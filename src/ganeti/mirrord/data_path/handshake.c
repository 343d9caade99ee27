/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Two storage daemons meet: TLS 1.3 with certificates of the cluster on both sides, a line each way, and on the primary
 * node the choice of the disk by NBD. Each meeting has a thread, so that no guest waits for it.
 */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STACK_BYTES = 512 << 10, AT_ONCE = 16 };
static const double WITHIN_S = 2.0;
static const uint64_t OPTION_ANSWER = 0x3e889045565a9;

int handshake_events = -1;
static int results = -1;
static int count_under_way;
static struct handshake *under_way;

bool handshake_prepare(void) {
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return false;
	handshake_events = ends[0];
	results = ends[1];
	return !fcntl(handshake_events, F_SETFL, O_NONBLOCK);
}

void handshake_free(struct handshake *handshake) {
	if (handshake->tls)
		SSL_free(handshake->tls);
	if (handshake->socket >= 0)
		close(handshake->socket);
	free(handshake->line);
	free(handshake);
}

static bool fail(struct handshake *handshake, const char *what) {
	const char *why = ERR_reason_error_string(ERR_peek_last_error());
	const long verified = handshake->tls ? SSL_get_verify_result(handshake->tls) : X509_V_OK;
	if (verified != X509_V_OK)
		why = X509_verify_cert_error_string(verified);
	else if (!why)
		why = errno == EAGAIN || errno == EWOULDBLOCK ? "no answer in time" : errno ? strerror(errno) : "it has ended";
	snprintf(handshake->error, sizeof handshake->error, "%s: %s", what, why);
	return false;
}

/* The rest of the time that is left, for the next step; false where there is none. */
static bool limit(struct handshake *handshake) {
	const double left = handshake->until_s - now_s();
	struct timeval time = {(time_t)left, (suseconds_t)((left - (time_t)left) * 1e6) | 1};
	if (left <= 0) {
		errno = EAGAIN;
		return false;
	}
	return !setsockopt(handshake->socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) &&
		!setsockopt(handshake->socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static SSL_CTX *context_of(const struct handshake *handshake) {
	SSL_CTX *context = SSL_CTX_new(handshake->is_server ? TLS_server_method() : TLS_client_method());
	if (!context)
		return NULL;
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_num_tickets(context, 0);
	SSL_CTX_set_default_read_buffer_len(context, SMALL);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
		SSL_CTX_use_certificate_chain_file(context, handshake->certificate) &&
		SSL_CTX_use_PrivateKey_file(context, handshake->certificate, SSL_FILETYPE_PEM) &&
		SSL_CTX_load_verify_locations(context, handshake->authority, NULL))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

static bool agree(struct handshake *handshake) {
	ERR_clear_error();
	errno = 0;
	SSL_CTX *context = context_of(handshake);
	if (!context)
		return fail(handshake, "the certificates of this node cannot be used");
	handshake->tls = SSL_new(context);
	SSL_CTX_free(context);
	if (!handshake->tls || !SSL_set_fd(handshake->tls, handshake->socket))
		return fail(handshake, "TLS cannot be set up");
	if (!handshake->is_server && !SSL_set1_host(handshake->tls, handshake->peer))
		return fail(handshake, "TLS cannot be set up");
	if (!limit(handshake) || (handshake->is_server ? SSL_accept : SSL_connect)(handshake->tls) != 1)
		return fail(handshake, "TLS is not agreed on");
	return true;
}

static bool get_all(struct handshake *handshake, void *place, size_t count) {
	for (size_t at = 0, some = 0; at < count; at += some) {
		errno = 0;
		if (!limit(handshake) || !SSL_read_ex(handshake->tls, (char *)place + at, count - at, &some))
			return fail(handshake, "the other node does not answer");
	}
	return true;
}

static bool put_all(struct handshake *handshake, const void *bytes, size_t count) {
	for (size_t at = 0, some = 0; at < count; at += some) {
		errno = 0;
		if (!limit(handshake) || !SSL_write_ex(handshake->tls, (const char *)bytes + at, count - at, &some))
			return fail(handshake, "the connection broke");
	}
	return true;
}

/* Byte by byte: what follows is not of the line. */
static bool get_line(struct handshake *handshake) {
	free(handshake->line);
	handshake->line = calloc(1, LINE);
	if (!handshake->line)
		return fail(handshake, "no memory is left");
	for (size_t at = 0; at < LINE - 1; at++) {
		if (!get_all(handshake, handshake->line + at, 1))
			return false;
		if (handshake->line[at] == '\n') {
			handshake->line[at] = 0;
			return true;
		}
	}
	return fail(handshake, "the line of the other node is too long");
}

static void add_name(struct handshake *handshake, const char *name, size_t length) {
	const size_t before = strlen(handshake->names);
	if (!length || before + length + 2 > sizeof handshake->names || strlen(name) != length || strpbrk(name, ",\n"))
		return;
	snprintf(handshake->names + before, sizeof handshake->names - before, "%s%s", before ? "," : "", name);
}

static void read_names(struct handshake *handshake) {
	char subject[NAME];
	X509 *certificate = SSL_get1_peer_certificate(handshake->tls);
	if (!certificate)
		return;
	if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, subject, sizeof subject) > 0)
		add_name(handshake, subject, strlen(subject));
	GENERAL_NAMES *others = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(others); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(others, i);
		if (name->type == GEN_DNS)
			add_name(handshake, (const char *)ASN1_STRING_get0_data(name->d.dNSName), ASN1_STRING_length(name->d.dNSName));
	}
	GENERAL_NAMES_free(others);
	X509_free(certificate);
}

static bool connect_to(struct handshake *handshake) {
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char hello[128];
	errno = 0;
	if (getaddrinfo(handshake->address, handshake->port, &hints, &found))
		return fail(handshake, "the address of the other node is none");
	handshake->socket = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_there = handshake->socket >= 0 && limit(handshake); /* SO_SNDTIMEO limits connect, too */
	is_there = is_there && !connect(handshake->socket, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	if (!is_there) {
		errno = errno == EINPROGRESS ? EAGAIN : errno;
		return fail(handshake, "the other node cannot be reached");
	}
	const int length = snprintf(hello, sizeof hello, "GANETI-DISK %s\n", handshake->uuid);
	if (send(handshake->socket, hello, length, MSG_NOSIGNAL) != length)
		return fail(handshake, "the connection broke");
	return true;
}

/* The size that the other node says its copy has. */
static bool choose_disk(struct handshake *handshake) {
	enum { GO = 7, ACK = 1, INFORMATION = 3, NEEDED = 4 | 8 | 64 };
	char bytes[4096], about[16];
	uint64_t size = 0;
	unsigned flags = 0;
	const size_t name = strlen(handshake->export);
	if (!get_all(handshake, bytes, 18))
		return false;
	if (memcmp(bytes, "NBDMAGICIHAVEOPT", 16) || !(bytes[17] & 1))
		return fail(handshake, "the other node's storage daemon speaks no NBD");
	put32(bytes, 1);
	memcpy(bytes + 4, "IHAVEOPT", 8);
	put32(bytes + 12, GO);
	put32(bytes + 16, 6 + name);
	put32(bytes + 20, name);
	memcpy(bytes + 24, handshake->export, name);
	put16(bytes + 24 + name, 0);
	if (!put_all(handshake, bytes, 26 + name))
		return false;
	for (uint32_t kind = 0; kind != ACK;) {
		if (!get_all(handshake, bytes, 20))
			return false;
		const uint32_t length = get32(bytes + 16);
		kind = get32(bytes + 12);
		if (get64(bytes) != OPTION_ANSWER || kind >> 31 || length > sizeof bytes) {
			snprintf(handshake->error, sizeof handshake->error, "the other node does not show the disk as %s",
				handshake->export);
			return false;
		}
		if (!get_all(handshake, bytes, length))
			return false;
		memcpy(about, bytes, sizeof about);
		if (kind == INFORMATION && length >= 12 && get16(about) == 0) {
			size = get64(about + 2);
			flags = get16(about + 10);
		}
	}
	if (size == handshake->size && (flags & NEEDED) == NEEDED)
		return true;
	snprintf(handshake->error, sizeof handshake->error,
		"the copy of the other node has %llu bytes, the own one %llu", (unsigned long long)size,
		(unsigned long long)handshake->size);
	return false;
}

static bool is_refusal(const char *line) {
	return strstr(line, "\"error\"") != NULL;
}

static void meet(struct handshake *handshake) {
	const int yes = 1;
	if (!handshake->is_server && !connect_to(handshake))
		return;
	setsockopt(handshake->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	if (!agree(handshake))
		return;
	if (handshake->is_server) {
		read_names(handshake);
		get_line(handshake);
		return;
	}
	const size_t length = strlen(handshake->line);
	handshake->line[length] = '\n';
	const bool is_sent = put_all(handshake, handshake->line, length + 1);
	if (!is_sent || !get_line(handshake))
		return;
	if (is_refusal(handshake->line)) {
		handshake->is_refused = true;
		snprintf(handshake->error, sizeof handshake->error, "the other node refuses");
		return;
	}
	choose_disk(handshake);
}

static void *work(void *given) {
	struct handshake *handshake = given;
	meet(handshake);
	ERR_clear_error();
	if (handshake->socket >= 0) {
		const struct timeval none = {0};
		setsockopt(handshake->socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
		setsockopt(handshake->socket, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
		fcntl(handshake->socket, F_SETFL, O_NONBLOCK);
	}
	if (handshake->tls)
		SSL_set_read_ahead(handshake->tls, 1);
	while (write(results, &handshake, sizeof handshake) < 0 && errno == EINTR)
		;
	return NULL;
}

bool handshake_start(struct handshake *handshake) {
	pthread_attr_t attributes;
	pthread_t thread;
	/* whoever comes leaves a place for what this node wants */
	if (count_under_way >= AT_ONCE + !handshake->is_server)
		return false;
	handshake->until_s = now_s() + WITHIN_S;
	if (handshake->is_server)
		fcntl(handshake->socket, F_SETFL, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	const bool is_started = !pthread_create(&thread, &attributes, work, handshake);
	pthread_attr_destroy(&attributes);
	if (is_started) {
		count_under_way++;
		handshake->next = under_way;
		under_way = handshake;
	}
	return is_started;
}

struct handshake *handshake_take_ended(void) {
	struct handshake *handshake;
	if (read(handshake_events, &handshake, sizeof handshake) != sizeof handshake)
		return NULL;
	struct handshake **place = &under_way;
	while (*place != handshake)
		place = &(*place)->next;
	*place = handshake->next;
	handshake->next = NULL;
	count_under_way--;
	return handshake;
}

void handshake_watch(void) {
	for (const struct handshake *each = under_way; each; each = each->next) {
		if (each->until_s > now_s())
			wake_at(each->until_s);
		else if (each->socket >= 0)
			shutdown(each->socket, SHUT_RDWR); /* its limits are those of one step, and bytes may come one by one */
	}
}
