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
 * valid until the function returns. The memory from __heap_base on belongs to the host and to the output: a plugin with a heap
 * of its own defines TW_OWN_ALLOC and its own tw_alloc, and sets tw_output_from and tw_output_to there to the ends of the memory
 * that it leaves to the output, 8-aligned. */
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
/* For TW_RESULT, a delay of 0 is left to the host, which waits longer with each attempt. */
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

/* A text that ends with a zero byte, as a slice. */
__attribute__((no_builtin)) static tw_slice tw_text(const char *text) {
	tw_slice s = { (const tw_u8 *)text, 0 };
	while (text[s.len]) s.len++;
	return s;
}
/* tw_say writes a line into the host's log. */
static inline void tw_say(const char *text) { tw_log(0, text, tw_text(text).len); }

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

/* tw_status is, for TW_RESULT, the HTTP status; 0 when no response came and the body is the reason. */
static inline int tw_status(const tw_record *r) { return r->entry->flags & 1 ? 0 : (int)(r->entry->flags >> 16); }

/* tw_cut is, for TW_RESULT, whether the response was longer than the host takes, and the body is its beginning. */
static inline int tw_cut(const tw_record *r) { return (r->entry->flags & 2) != 0; }

/* tw_next_header takes the first header off the headers of a record; 0 at the end. */
static inline int tw_next_header(tw_slice *headers, tw_slice *name, tw_slice *value) {
	if (headers->len < 8) return 0;
	const tw_u8 *p = headers->ptr;
	tw_u32 k = p[0] | p[1] << 8, v = *(const tw_u32 *)(p + 4);
	tw_u64 all = ((tw_u64)8 + k + v + 3) & ~3ull;
	if (all > headers->len) return 0;
	*name = (tw_slice){ p + 8, k };
	*value = (tw_slice){ p + 8 + k, v };
	*headers = (tw_slice){ p + all, headers->len - (tw_u32)all };
	return 1;
}
/* tw_header finds the first header of a name: 1, and its value, or 0. */
static inline int tw_header(const tw_record *r, const char *name, tw_slice *value) {
	tw_slice rest = r->headers, k;
	while (tw_next_header(&rest, &k, value))
		if (tw_equal(k, name)) return 1;
	return 0;
}

/* tw_json_space and tw_json_end go over spaces, and to the end of the value at p. */
static inline tw_u32 tw_json_space(tw_slice j, tw_u32 p) {
	while (p < j.len && j.ptr[p] <= ' ') p++;
	return p;
}
static inline tw_u32 tw_json_end(tw_slice j, tw_u32 p) {
	tw_u32 depth = 0;
	int quoted = 0;
	for (; p < j.len; p++) {
		tw_u8 c = j.ptr[p];
		if (quoted) {
			if (c == '\\') p++;
			else if (c == '"' && (quoted = 0, depth == 0)) return p + 1;
		} else if (c == '"') quoted = 1;
		else if (c == '{' || c == '[') depth++;
		else if (c == '}' || c == ']') {
			if (depth == 0) return p;
			if (--depth == 0) return p + 1;
		} else if (depth == 0 && (c == ',' || c == ':' || c <= ' ')) return p;
	}
	return j.len;
}
/* tw_member finds a member of the object that a JSON text is: 1, and its value, of a string without the quotes, or 0. Escapes in
 * names and strings stay as they are. It is meant for the configuration; in bodies, tw_json_get finds values for a whole batch. */
static inline int tw_member(tw_slice json, const char *name, tw_slice *value) {
	tw_u32 p = tw_json_space(json, 0), end;
	if (p >= json.len || json.ptr[p] != '{') return 0;
	do {
		p = tw_json_space(json, p + 1), end = tw_json_end(json, p);
		if (end < p + 2 || json.ptr[p] != '"') return 0;
		tw_slice key = { json.ptr + p + 1, end - p - 2 };
		p = tw_json_space(json, end);
		if (p >= json.len || json.ptr[p] != ':') return 0;
		p = tw_json_space(json, p + 1), end = tw_json_end(json, p);
		if (end == p) return 0;
		if (tw_equal(key, name)) {
			int text = json.ptr[p] == '"' && end >= p + 2;
			*value = (tw_slice){ json.ptr + p + text, end - p - 2 * (tw_u32)text };
			return 1;
		}
		p = tw_json_space(json, end);
	} while (p < json.len && json.ptr[p] == ',');
	return 0;
}

TW_EXPORT("tw_abi_1") void tw_abi_1(void) {}

static tw_u32 tw_output_from, tw_output_to; /* the memory for output; to the end of the memory, which grows, if tw_output_to is 0 */

/* tw_grow sees to it that the memory reaches to end; 0 when it cannot. */
static int tw_grow(tw_u64 end) {
	tw_u64 need = (end + 65535) >> 16;
	tw_u32 have = (tw_u32)__builtin_wasm_memory_size(0);
	return need <= have || (need <= 65536 && __builtin_wasm_memory_grow(0, (tw_u32)need - have) != (unsigned long)-1);
}

#ifndef TW_OWN_ALLOC
extern tw_u8 __heap_base;
TW_EXPORT("tw_alloc") tw_u32 tw_alloc(tw_u32 size) {
	tw_u32 base = ((tw_u32)&__heap_base + 15) & ~15u;
	tw_u64 end = ((tw_u64)base + size + 15) & ~15ull;
	if (end >> 32 || !tw_grow(end)) return 0;
	tw_output_from = (tw_u32)end;
	return base;
}
#endif

/* What a plugin puts in the place of a message, or what it wants to have sent. Everything is copied at once. */
typedef struct { tw_slice topic, key, headers, body; } tw_message;
static tw_u32 tw_outputs, tw_output_end; /* of the call in hand */

__attribute__((target("bulk-memory"))) static void tw_move(void *to, const void *from, tw_u32 n) { __builtin_memcpy(to, from, n); }

/* tw_output adds to the output: its number, or -1 when there is no memory left or there are more than records. */
static int tw_output(tw_batch *b, const tw_message *m) {
	const tw_slice parts[4] = { m->topic, m->key, m->headers, m->body };
	tw_batch *out = (tw_batch *)tw_output_from;
	if (tw_outputs >= b->count) return -1;
	if (tw_outputs == 0) tw_output_end = tw_output_from + 64 + 64 * b->count;
	tw_u64 end = tw_output_end;
	for (int i = 0; i < 4; i++) end += ((tw_u64)parts[i].len + 3) & ~3ull;
	if (end >> 32 || (tw_output_to != 0 ? end > tw_output_to : !tw_grow(end))) return -1;
	if (tw_outputs == 0) {
		*out = (tw_batch){ .magic = 0x31425754, .hook = b->hook, .stride = 64, .header_size = 64, .verdicts = 64, .index = 64,
			.blob = 64 + 64 * b->count };
		b->out_ptr = tw_output_from;
	}
	tw_entry *e = (tw_entry *)(tw_output_from + 64 + 64 * tw_outputs);
	tw_u32 *place = &e->topic;
	e->id = 0, e->stored_ms = e->due_ms = 0, e->attempt = e->flags = 0;
	for (int i = 0; i < 4; i++) {
		place[2 * i] = tw_output_end - tw_output_from, place[2 * i + 1] = parts[i].len;
		tw_move((void *)tw_output_end, parts[i].ptr, parts[i].len);
		tw_output_end += (parts[i].len + 3) & ~3u;
	}
	out->count = tw_outputs + 1;
	out->total = b->out_len = tw_output_end - tw_output_from;
	return (int)tw_outputs++;
}

enum { TW_NO_OUTPUT = 0xfffe }; /* the code of a record whose output found no room */

/* tw_same is a message like r: change it and give it to tw_replace_by. */
static inline tw_message tw_same(const tw_record *r) { return (tw_message){ r->topic, r->key, r->headers, r->body }; }
static inline tw_verdict tw_replace_by(tw_batch *b, const tw_message *m) {
	int i = tw_output(b, m);
	return i < 0 ? tw_error(TW_NO_OUTPUT) : tw_replace((tw_u32)i);
}
/* tw_send is for TW_PREPARE: it has a request sent; the method is POST when empty. */
static inline tw_verdict tw_send(tw_batch *b, tw_slice method, tw_slice url, tw_slice headers, tw_slice body) {
	tw_message m = { url, method, headers, body };
	return tw_replace_by(b, &m);
}
/* tw_fail is tw_error with a text, which the dead letter carries. */
static inline tw_verdict tw_fail(tw_batch *b, tw_u16 code, const char *text) {
	tw_message m = { { 0, 0 }, { 0, 0 }, { 0, 0 }, tw_text(text) };
	int i = tw_output(b, &m);
	return tw_make(TW_ERROR, code, i < 0 ? 0 : (tw_u32)i + 1);
}

/* Headers of a message or request, in memory of the plugin; tw_put_header returns 0 when there is no room. */
typedef struct { tw_u8 *ptr; tw_u32 len, size; } tw_headers;
static inline int tw_put_header(tw_headers *h, tw_slice name, tw_slice value) {
	tw_u64 all = ((tw_u64)8 + name.len + value.len + 3) & ~3ull;
	if (name.len > 65535 || all > h->size - h->len) return 0;
	tw_u8 *p = h->ptr + h->len;
	((tw_u32 *)p)[0] = name.len, ((tw_u32 *)p)[1] = value.len;
	tw_move(p + 8, name.ptr, name.len);
	tw_move(p + 8 + name.len, value.ptr, value.len);
	h->len += (tw_u32)all;
	return 1;
}
static inline tw_slice tw_all_headers(const tw_headers *h) { return (tw_slice){ h->ptr, h->len }; }

/* tw_each calls decide for each record: cursor, function, verdict. */
static inline int tw_each(tw_batch *b, tw_verdict (*decide)(tw_batch *, const tw_record *)) {
	tw_u8 *base = (tw_u8 *)b;
	if (b->magic != 0x31425754) return -2;
	tw_outputs = 0;
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

/* TW_CONFIGURE(f): int f(tw_slice config) takes the configuration, a JSON object, once before the first batch; it belongs to the
 * host and is gone after the call. f returns 0, or -3 to refuse it. */
#define TW_CONFIGURE(f) TW_EXPORT("tw_configure") int f##_hook(const tw_u8 *ptr, tw_u32 len) { return f((tw_slice){ ptr, len }); }

#endif
