/* The plugin of `tidewheel demo`, in two parts that the demo configures one by one: a filter that drops orders to be closed
 * if they were paid meanwhile, and a webhook. */
#include "../../../plugins/guest/c/tidewheel.h"

enum { CODE_PAID = 1, CODE_NO_ROOM = 2 };
enum { MOST_URL = 1024, MOST_HEADERS = 512 };

static tw_u8 url[MOST_URL];
static tw_u32 url_len;
static tw_u32 fields[MOST_HEADERS / 4]; /* as numbers, for their alignment */

/* member finds a string in the configuration, which has no spaces outside of strings. */
static tw_slice member(tw_slice json, const char *quoted) {
	tw_slice name = tw_text(quoted), none = { 0, 0 };
	for (tw_u32 at = 0; at + name.len < json.len; at++) {
		tw_u32 i = 0;
		while (i < name.len && json.ptr[at + i] == name.ptr[i]) i++;
		if (i < name.len) continue;
		tw_slice value = { json.ptr + at + i, 0 };
		while (at + i + value.len < json.len && value.ptr[value.len] != '"')
			if (value.ptr[value.len++] == '\\') return none;
		return value;
	}
	return none;
}

TW_EXPORT("tw_configure") int tw_configure(const tw_u8 *config, tw_u32 len) {
	tw_slice value = member((tw_slice){ config, len }, "\"url\":\"");
	if (value.len == 0 || value.len > MOST_URL) return -3;
	tw_move(url, value.ptr, value.len);
	url_len = value.len;
	return 0;
}

static tw_verdict filter(tw_batch *b, const tw_record *r) {
	tw_slice tag, paid;
	if (tw_header(r, "TAGS", &tag) && tw_equal(tag, "unpaid") && tw_header(r, "paid", &paid) && tw_equal(paid, "true"))
		return tw_drop(CODE_PAID);
	return tw_keep();
}
TW_FILTER(filter)

static tw_verdict prepare(tw_batch *b, const tw_record *r) {
	tw_headers h = { (tw_u8 *)fields, 0, sizeof fields };
	if (!tw_put_header(&h, tw_text("Content-Type"), tw_text("application/json")) ||
		!tw_put_header(&h, tw_text("Tidewheel-Key"), r->key))
		return tw_fail(b, CODE_NO_ROOM, "the key does not fit into the headers");
	return tw_send(b, tw_text("POST"), (tw_slice){ url, url_len }, tw_all_headers(&h), r->body);
}
TW_PREPARE(prepare)

static tw_verdict result(tw_batch *b, const tw_record *r) {
	int status = tw_status(r);
	if (status >= 200 && status <= 299) return tw_keep();
	if (status == 0 || status == 429 || status >= 500) return tw_retry(0, (tw_u16)status);
	return tw_dead_letter((tw_u16)status);
}
TW_RESULT(result)
