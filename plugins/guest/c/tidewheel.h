/* tidewheel.h: the plugin ABI of Tidewheel for C, version 1. See plugins/abi/ABI.md.
 *
 *	#include "tidewheel.h"
 *
 *	static tw_verdict decide(tw_batch *b, const tw_record *r) {
 *		return r->body.len > 100 ? tw_drop(1) : tw_keep();
 *	}
 *	TW_FILTER(decide)
 *
 *	clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o plugin.wasm plugin.c
 *
 * Include it in one file of a plugin. It needs no library. The records are windows of the batch and belong to the host; they are
 * valid until the function returns. The memory from __heap_base on belongs to the host: a plugin with a heap of its own
 * defines TW_OWN_ALLOC and its own tw_alloc. */
#ifndef TIDEWHEEL_H
#define TIDEWHEEL_H

typedef unsigned char tw_u8;
typedef unsigned short tw_u16;
typedef unsigned int tw_u32;
typedef unsigned long long tw_u64;
typedef long long tw_i64;
typedef tw_u64 tw_verdict;

typedef struct { const tw_u8 *ptr; tw_u32 len; } tw_slice;

typedef struct {
	tw_u32 magic; tw_u8 hook, flags; tw_u16 stride; tw_u32 count, header_size;
	tw_u32 total, verdicts, index, blob;
	tw_u32 out_ptr, out_len, err_len, cursor; /* written by the plugin */
	tw_i64 now_ms; tw_u64 seed;
} tw_batch;

/* An entry of the index as it lies in the batch. */
typedef struct {
	tw_u64 id; tw_i64 stored_ms, due_ms; tw_u32 attempt, flags;
	tw_u32 topic, topic_len, key, key_len, headers, headers_len, body, body_len;
} tw_entry;

/* A record as the plugin's function sees it. */
typedef struct {
	tw_u32 i; /* its number in the batch */
	const tw_entry *entry;
	tw_slice topic, key, headers, body;
} tw_record;

enum { TW_KEEP = 1, TW_DROP, TW_RETRY, TW_DEAD_LETTER, TW_ROUTE, TW_REPLACE, TW_ERROR, TW_DEFER };

static inline tw_verdict tw_make(tw_u8 action, tw_u16 code, tw_u32 arg) {
	return (tw_u64)action | (tw_u64)code << 16 | (tw_u64)arg << 32;
}
static inline tw_verdict tw_keep(void) { return tw_make(TW_KEEP, 0, 0); }
static inline tw_verdict tw_drop(tw_u16 code) { return tw_make(TW_DROP, code, 0); }
static inline tw_verdict tw_retry(tw_u32 delay_ms, tw_u16 code) { return tw_make(TW_RETRY, code, delay_ms); }
static inline tw_verdict tw_dead_letter(tw_u16 code) { return tw_make(TW_DEAD_LETTER, code, 0); }
static inline tw_verdict tw_route(tw_u32 target) { return tw_make(TW_ROUTE, 0, target); }
static inline tw_verdict tw_replace(tw_u32 output) { return tw_make(TW_REPLACE, 0, output); }
static inline tw_verdict tw_error(tw_u16 code) { return tw_make(TW_ERROR, code, 0); }
static inline tw_verdict tw_defer(void) { return tw_make(TW_DEFER, 0, 0); }

/* The host's functions; each must be granted, but for tw_log. They return a number from 0 on, or an error below. */
#define TW_IMPORT(name) __attribute__((import_module("tw_v1"), import_name(name)))
#define TW_EXPORT(name) __attribute__((export_name(name)))
typedef struct { tw_u32 at, len; } tw_place; /* len 0: there is none */
TW_IMPORT("log") int tw_log(int level, const char *text, tw_u32 len);
TW_IMPORT("json_get") int tw_json_get(tw_batch *b, const char *pointer, tw_u32 len, tw_place *out);
TW_IMPORT("hdr_get") int tw_hdr_get(tw_batch *b, const char *name, tw_u32 len, tw_place *out);
TW_IMPORT("match") int tw_match(tw_batch *b, int field, const char *pattern, tw_u32 len, tw_u8 *out);

static inline tw_slice tw_at(tw_batch *b, tw_place p) {
	tw_slice s = { (const tw_u8 *)b + p.at, p.len };
	return s;
}
static inline int tw_equal(tw_slice s, const char *text) {
	tw_u32 i = 0;
	for (; i < s.len && text[i]; i++)
		if (s.ptr[i] != (tw_u8)text[i]) return 0;
	return i == s.len && !text[i];
}

TW_EXPORT("tw_abi_1") void tw_abi_1(void) {}

#ifndef TW_OWN_ALLOC
extern tw_u8 __heap_base;
TW_EXPORT("tw_alloc") tw_u32 tw_alloc(tw_u32 size) {
	tw_u32 base = ((tw_u32)&__heap_base + 15) & ~15u;
	tw_u64 need = ((tw_u64)base + size + 65535) >> 16;
	tw_u32 have = (tw_u32)__builtin_wasm_memory_size(0);
	if (need > have && (need > 65536 || __builtin_wasm_memory_grow(0, (tw_u32)need - have) == (unsigned long)-1)) return 0;
	return base;
}
#endif

/* tw_each calls decide for each record: cursor, function, verdict. */
static inline int tw_each(tw_batch *b, tw_verdict (*decide)(tw_batch *, const tw_record *)) {
	tw_u8 *base = (tw_u8 *)b;
	if (b->magic != 0x31425754) return -2;
	tw_u64 *verdicts = (tw_u64 *)(base + b->verdicts);
	for (tw_u32 i = 0; i < b->count; i++) {
		const tw_entry *e = (const tw_entry *)(base + b->index + i * b->stride);
		tw_record r = { i, e, { base + e->topic, e->topic_len }, { base + e->key, e->key_len },
			{ base + e->headers, e->headers_len }, { base + e->body, e->body_len } };
		*(volatile tw_u32 *)&b->cursor = i;
		((volatile tw_u64 *)verdicts)[i] = decide(b, &r);
	}
	return 0;
}

#define TW_HOOK(name, decide) TW_EXPORT(name) int decide##_hook(tw_batch *b) { return tw_each(b, decide); }
#define TW_PUBLISH(decide) TW_HOOK("tw_publish", decide)
#define TW_FILTER(decide) TW_HOOK("tw_filter", decide)
#define TW_TRANSFORM(decide) TW_HOOK("tw_transform", decide)
#define TW_PREPARE(decide) TW_HOOK("tw_prepare", decide)
#define TW_RESULT(decide) TW_HOOK("tw_result", decide)

#endif
