/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The server of NBD: what clients agree on, and their requests. A client is the guest's QEMU, another program of this
 * node, or the storage daemon of the primary node. See doc/proto.md of the NBD project for the protocol.
 */
#include "storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT_FLAGS, OPTIONS, TRANSMISSION };
enum { OPTION_BYTES = 16, REQUEST_BYTES = 28, SIMPLE_BYTES = 16, CHUNK_BYTES = 20, OPTION_LONGEST = 8192 };
enum { OUT_MOST = 2 << 20 };
enum { EXPORT_NAME = 1, ABORT, LIST, STARTTLS, INFO = 6, GO, STRUCTURED, LIST_CONTEXTS, SET_CONTEXTS };
enum { ACK = 1, SERVER, INFORMATION, CONTEXT };
enum { INFO_EXPORT = 0, INFO_BLOCKS = 3 };
enum { NBD_READ, NBD_WRITE, NBD_DISCONNECT, NBD_FLUSH, NBD_TRIM, NBD_ZEROES = 6, NBD_STATUS };
enum { FUA = 1, NO_HOLE = 2, ONE_EXTENT = 8 };
enum { CHUNK_DONE = 1, CHUNK_NONE = 0, CHUNK_DATA = 1, CHUNK_STATUS = 5, CHUNK_ERROR = 32769 };
enum { EXTENTS = 128 };

static const uint64_t OPTION_MAGIC = 0x49484156454F5054, ANSWER_MAGIC = 0x3e889045565a9;
static const uint32_t REQUEST_MAGIC = 0x25609513, SIMPLE_MAGIC = 0x67446698, CHUNK_MAGIC = 0x668e33ef;
static const uint32_t UNSUPPORTED = 0x80000001, INVALID = 0x80000003, UNKNOWN = 0x80000006;
static const uint32_t CONTEXT_ID = 1;
static const char ALLOCATION[] = "base:allocation";

struct client *clients;
char export_name[NAME];

static unsigned count_of_clients(void) {
	unsigned count = 0;
	for (const struct client *client = clients; client; client = client->next)
		count++;
	return count;
}

struct client *client_new(int socket, SSL *tls, const char *line) {
	struct client *client = count_of_clients() < CLIENTS ? calloc(1, sizeof *client) : NULL;
	if (!client)
		return NULL;
	channel_open(&client->channel, socket, tls);
	if (line) {
		client->is_other_node = true;
		channel_put(&client->channel, line, strlen(line));
		channel_put(&client->channel, "\n", 1);
	}
	channel_put(&client->channel, "NBDMAGICIHAVEOPT\0\3", 18);
	client->next = clients;
	clients = client;
	return client;
}

static uint16_t transmission_flags(const struct client *client) {
	enum { HAS_FLAGS = 1, SEND_FLUSH = 4, SEND_FUA = 8, SEND_TRIM = 32, SEND_ZEROES = 64, SEND_DF = 128, MULTIPLE = 256 };
	return HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_ZEROES | MULTIPLE | (client->is_structured ? SEND_DF : 0);
}

static void end(struct client *client) {
	client->is_ending = true;
}

/* Options */

static void option_answer(struct client *client, uint32_t option, uint32_t kind, const void *data, uint32_t length) {
	char head[20];
	put64(head, ANSWER_MAGIC);
	put32(head + 8, option);
	put32(head + 12, kind);
	put32(head + 16, length);
	channel_put(&client->channel, head, sizeof head);
	channel_put(&client->channel, data, length);
}

static bool is_export(const char *name, uint32_t length) {
	return *export_name && length == strlen(export_name) && !memcmp(name, export_name, length);
}

static void give_export(struct client *client, uint32_t option) {
	char about[14];
	put16(about, INFO_EXPORT);
	put64(about + 2, image_size);
	put16(about + 10, transmission_flags(client));
	option_answer(client, option, INFORMATION, about, 12);
	put16(about, INFO_BLOCKS);
	put32(about + 2, BLOCK);
	put32(about + 6, BLOCK);
	put32(about + 10, LONGEST);
	option_answer(client, option, INFORMATION, about, 14);
	option_answer(client, option, ACK, NULL, 0);
	if (option == GO)
		client->state = TRANSMISSION;
}

static void option_go(struct client *client, uint32_t option, const char *data, uint32_t length) {
	const uint32_t name = length >= 6 ? get32(data) : 0;
	if (length < 6 || name > length - 6)
		option_answer(client, option, INVALID, NULL, 0);
	else if (!is_export(data + 4, name))
		option_answer(client, option, UNKNOWN, NULL, 0);
	else
		give_export(client, option);
}

static void option_name(struct client *client, const char *data, uint32_t length) {
	char about[10 + 124] = {0};
	if (!is_export(data, length)) {
		end(client); /* this option has no other way to refuse */
		return;
	}
	put64(about, image_size);
	put16(about + 8, transmission_flags(client));
	channel_put(&client->channel, about, client->has_no_zeroes ? 10 : sizeof about);
	client->state = TRANSMISSION;
}

static void option_list(struct client *client) {
	char about[4 + NAME];
	const size_t length = strlen(export_name);
	put32(about, length);
	memcpy(about + 4, export_name, length);
	if (length)
		option_answer(client, LIST, SERVER, about, 4 + length);
	option_answer(client, LIST, ACK, NULL, 0);
}

static bool names_allocation(const char *query, uint32_t length, bool is_list) {
	if (is_list && length == 5 && !memcmp(query, ALLOCATION, 5))
		return true;
	return length == sizeof ALLOCATION - 1 && !memcmp(query, ALLOCATION, length);
}

/* Whether allocation is among the queries; -1 where they cannot be read. */
static int wants_allocation(const char *at, const char *end_of, uint32_t queries, bool is_list) {
	int wanted = is_list && !queries;
	for (; queries; queries--) {
		if (end_of - at < 4 || (size_t)(end_of - at) < 4 + (size_t)get32(at))
			return -1;
		wanted |= names_allocation(at + 4, get32(at), is_list);
		at += 4 + get32(at);
	}
	return at == end_of ? wanted : -1;
}

static void option_contexts(struct client *client, uint32_t option, const char *data, uint32_t length) {
	char about[4 + sizeof ALLOCATION - 1];
	const bool is_list = option == LIST_CONTEXTS;
	const uint32_t name = length >= 8 ? get32(data) : 0;
	int wanted = -1;
	if (length >= 8 && name <= length - 8)
		wanted = wants_allocation(data + 8 + name, data + length, get32(data + 4 + name), is_list);
	if (!is_list)
		client->has_allocation = false;
	if (wanted < 0 || !client->is_structured) {
		option_answer(client, option, INVALID, NULL, 0);
		return;
	}
	if (!is_export(data + 4, name)) {
		option_answer(client, option, UNKNOWN, NULL, 0);
		return;
	}
	put32(about, is_list ? 0 : CONTEXT_ID);
	memcpy(about + 4, ALLOCATION, sizeof ALLOCATION - 1);
	if (wanted)
		option_answer(client, option, CONTEXT, about, sizeof about);
	if (!is_list)
		client->has_allocation = wanted;
	option_answer(client, option, ACK, NULL, 0);
}

static void option(struct client *client, uint32_t option, const char *data, uint32_t length) {
	switch (option) {
	case EXPORT_NAME:
		option_name(client, data, length);
		break;
	case ABORT:
		option_answer(client, option, ACK, NULL, 0);
		end(client);
		break;
	case LIST:
		option_list(client);
		break;
	case INFO:
	case GO:
		option_go(client, option, data, length);
		break;
	case STRUCTURED:
		client->is_structured = !length;
		option_answer(client, option, length ? INVALID : ACK, NULL, 0);
		break;
	case LIST_CONTEXTS:
	case SET_CONTEXTS:
		option_contexts(client, option, data, length);
		break;
	default:
		option_answer(client, option, UNSUPPORTED, NULL, 0);
	}
}

static bool take_option(struct client *client) {
	const size_t held = channel_held(&client->channel);
	const char *bytes = channel_bytes(&client->channel);
	if (client->state == CLIENT_FLAGS) {
		if (held < 4)
			return false;
		client->has_no_zeroes = get32(bytes) & 2;
		if (get32(bytes) & ~3u)
			end(client);
		client->state = OPTIONS;
		channel_used(&client->channel, 4);
		return true;
	}
	if (held < OPTION_BYTES)
		return false;
	const uint32_t length = get32(bytes + 12);
	if (get64(bytes) != OPTION_MAGIC || length > OPTION_LONGEST) {
		end(client);
		return false;
	}
	if (held < OPTION_BYTES + length)
		return false;
	option(client, get32(bytes + 8), bytes + OPTION_BYTES, length);
	channel_used(&client->channel, OPTION_BYTES + length);
	return true;
}

/* Answers */

static void put_chunk(struct client *client, uint64_t cookie, uint16_t kind, uint32_t length) {
	char head[CHUNK_BYTES];
	put32(head, CHUNK_MAGIC);
	put16(head + 4, CHUNK_DONE);
	put16(head + 6, kind);
	memcpy(head + 8, &cookie, sizeof cookie);
	put32(head + 16, length);
	channel_put(&client->channel, head, sizeof head);
}

static uint32_t known_error(int error) {
	switch (error) {
	case EPERM:
	case EIO:
	case ENOMEM:
	case EINVAL:
	case ENOSPC:
		return error;
	case EDQUOT:
	case EFBIG:
		return ENOSPC;
	default:
		return EIO;
	}
}

static void answer_simply(struct client *client, uint64_t cookie, int error) {
	char head[SIMPLE_BYTES];
	put32(head, SIMPLE_MAGIC);
	put32(head + 4, error ? known_error(error) : 0);
	memcpy(head + 8, &cookie, sizeof cookie);
	channel_put(&client->channel, head, sizeof head);
}

static void answer_error(struct client *client, uint64_t cookie, int error) {
	char about[6];
	put32(about, known_error(error));
	put16(about + 4, 0);
	put_chunk(client, cookie, CHUNK_ERROR, sizeof about);
	channel_put(&client->channel, about, sizeof about);
}

static void answer_read(struct client *client, const struct request *request) {
	char offset[8];
	if (!client->is_structured) {
		answer_simply(client, request->cookie, request->error);
	} else if (request->error) {
		answer_error(client, request->cookie, request->error);
	} else if (!request->length) {
		put_chunk(client, request->cookie, CHUNK_NONE, 0);
	} else {
		put64(offset, request->offset);
		put_chunk(client, request->cookie, CHUNK_DATA, sizeof offset + request->length);
		channel_put(&client->channel, offset, sizeof offset);
	}
	if (!request->error)
		channel_put(&client->channel, request->data, request->length);
}

void client_answer(struct client *client, const struct request *request) {
	if (request->kind == READ)
		answer_read(client, request);
	else
		answer_simply(client, request->cookie, request->error);
}

static void answer_status(struct client *client, uint64_t cookie, uint64_t offset, uint32_t length, bool is_one) {
	char about[4 + 8 * EXTENTS];
	size_t filled = 4;
	const uint64_t end_of = offset + length;
	put32(about, CONTEXT_ID);
	while (offset < end_of && filled < sizeof about && (filled == 4 || !is_one)) {
		bool is_hole;
		const uint64_t to = image_extent(offset, end_of, &is_hole);
		put32(about + filled, to - offset);
		put32(about + filled + 4, is_hole ? 3 : 0); /* a hole, and zeroes */
		filled += 8;
		offset = to;
	}
	put_chunk(client, cookie, CHUNK_STATUS, filled);
	channel_put(&client->channel, about, filled);
}

/* Requests */

static int fault(const struct client *client, uint16_t kind, uint64_t offset, uint32_t length) {
	if (kind == NBD_FLUSH)
		return 0;
	if (kind > NBD_STATUS || kind == 5 || (kind == NBD_STATUS && (!client->has_allocation || !length)))
		return EINVAL;
	if (offset % BLOCK || length % BLOCK || (kind == NBD_READ && length > LONGEST))
		return EINVAL;
	if (offset > image_size || length > image_size - offset)
		return kind == NBD_READ || kind == NBD_STATUS ? EINVAL : ENOSPC;
	return 0;
}

static enum kind kind_of(uint16_t kind) {
	switch (kind) {
	case NBD_READ:
		return READ;
	case NBD_WRITE:
		return WRITE;
	case NBD_FLUSH:
		return FLUSH;
	default:
		return ZERO;
	}
}

static void refuse(struct client *client, uint16_t kind, uint64_t cookie, int error) {
	if (client->is_structured && (kind == NBD_READ || kind == NBD_STATUS))
		answer_error(client, cookie, error);
	else
		answer_simply(client, cookie, error);
}

static void begin(struct client *client, const char *bytes, struct request *request, uint16_t kind, int error) {
	const uint16_t flags = get16(bytes + 4);
	request->kind = kind_of(kind);
	request->client = client;
	memcpy(&request->cookie, bytes + 8, sizeof request->cookie);
	request->offset = get64(bytes + 16);
	request->length = kind == NBD_FLUSH ? 0 : get32(bytes + 24);
	request->is_durable = flags & FUA;
	request->keeps_space = kind == NBD_ZEROES && flags & NO_HOLE;
	request->error = error;
	client->begun++;
	if (kind == NBD_WRITE)
		client->coming = request;
	else
		request_come(request);
}

/* True where something was taken. */
static bool take_request(struct client *client) {
	const char *bytes = channel_bytes(&client->channel);
	if (channel_held(&client->channel) < REQUEST_BYTES)
		return false;
	const uint16_t kind = get16(bytes + 6);
	const uint64_t offset = get64(bytes + 16);
	const uint32_t length = get32(bytes + 24);
	if (get32(bytes) != REQUEST_MAGIC || kind == NBD_DISCONNECT || (kind == NBD_WRITE && length > LONGEST)) {
		end(client);
		return false;
	}
	uint64_t cookie;
	memcpy(&cookie, bytes + 8, sizeof cookie);
	const int error = fault(client, kind, offset, length);
	const bool is_empty = !length && kind != NBD_FLUSH;
	if (kind != NBD_WRITE && (error || is_empty)) {
		if (error || kind != NBD_READ)
			refuse(client, kind, cookie, error);
		else
			answer_read(client, &(struct request){.kind = READ, .cookie = cookie});
	} else if (kind == NBD_STATUS) {
		answer_status(client, cookie, offset, length, get16(bytes + 4) & ONE_EXTENT);
	} else {
		const bool has_data = kind == NBD_READ || kind == NBD_WRITE;
		struct request *request = request_new(has_data ? length : 0, client->is_other_node);
		if (!request) {
			client->is_blocked = true;
			return false;
		}
		begin(client, bytes, request, kind, error);
	}
	channel_used(&client->channel, REQUEST_BYTES);
	return true;
}

/* The data of a write, of which some may be held already; true where that changed something. */
static bool take_data(struct client *client) {
	struct request *request = client->coming;
	const uint32_t left = request->length - request->received;
	const size_t held = channel_held(&client->channel), some = held < left ? held : left;
	if (some)
		memcpy(request->data + request->received, channel_bytes(&client->channel), some);
	channel_used(&client->channel, some);
	request->received += some;
	if (request->received < request->length)
		return false;
	client->coming = NULL;
	if (request->error || !request->length) {
		client_answer(client, request);
		request_free(request);
	} else {
		request_come(request);
	}
	return true;
}

static void receive(struct client *client) {
	struct request *request = client->coming;
	if (!request || channel_held(&client->channel))
		channel_fill(&client->channel);
	else
		request->received +=
			channel_receive(&client->channel, request->data + request->received, request->length - request->received);
	if (client->channel.has_ended)
		end(client);
}

void client_take(struct client *client, bool is_ready) {
	if (is_ready && !client->is_ending)
		receive(client);
	client->is_blocked = false;
	for (bool goes_on = true; goes_on && !client->is_ending;) {
		if (client->channel.due - client->channel.sent > OUT_MOST) {
			client->is_blocked = true;
			break;
		}
		if (client->coming)
			goes_on = take_data(client);
		else
			goes_on = client->state == TRANSMISSION ? take_request(client) : take_option(client);
	}
	if (client->is_ending && client->coming) {
		request_free(client->coming);
		client->coming = NULL;
	}
}

bool client_may_receive(const struct client *client) {
	if (client->is_ending || client->channel.due - client->channel.sent > OUT_MOST)
		return false;
	return client->coming || client->state != TRANSMISSION || requests_have_room(client->is_other_node);
}

void clients_end(bool of_other_node) {
	for (struct client *client = clients; client; client = client->next) {
		if (client->is_other_node == of_other_node) {
			end(client);
			client->is_cut = true;
			client_take(client, false);
		}
	}
}

bool clients_are_gone(bool of_other_node) {
	for (const struct client *client = clients; client; client = client->next)
		if (client->is_other_node == of_other_node)
			return false;
	return true;
}

void clients_sweep(void) {
	for (struct client **place = &clients; *place;) {
		struct client *client = *place;
		channel_send(&client->channel);
		if (client->channel.has_ended)
			end(client);
		if (client->is_ending && client->coming)
			client_take(client, false);
		const bool is_told = client->channel.has_ended || client->is_cut || !channel_events(&client->channel, false);
		if (client->is_ending && !client->begun && is_told) {
			*place = client->next;
			channel_close(&client->channel);
			free(client);
		} else {
			place = &client->next;
		}
	}
}
