/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Numbers at any address, in the byte order of NBD.
 */
#include "storage.h"

#include <endian.h>
#include <string.h>

void put16(void *place, uint16_t number) {
	number = htobe16(number);
	memcpy(place, &number, sizeof number);
}

void put32(void *place, uint32_t number) {
	number = htobe32(number);
	memcpy(place, &number, sizeof number);
}

void put64(void *place, uint64_t number) {
	number = htobe64(number);
	memcpy(place, &number, sizeof number);
}

uint16_t get16(const void *place) {
	uint16_t number;
	memcpy(&number, place, sizeof number);
	return be16toh(number);
}

uint32_t get32(const void *place) {
	uint32_t number;
	memcpy(&number, place, sizeof number);
	return be32toh(number);
}

uint64_t get64(const void *place) {
	uint64_t number;
	memcpy(&number, place, sizeof number);
	return be64toh(number);
}
