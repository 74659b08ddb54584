/* The C plugin of the tests: it does what the first byte of a body says. */
#include "../tidewheel.h"

static tw_u16 limit;
static int configure(tw_slice config) {
	tw_slice value;
	if (tw_member(config, "refuse", &value)) return -3;
	if (tw_member(config, "limit", &value))
		for (tw_u32 i = 0; i < value.len; i++) limit = (tw_u16)(10 * limit + value.ptr[i] - '0');
	return 0;
}
TW_CONFIGURE(configure)

static tw_verdict decide(tw_batch *b, const tw_record *r) {
	if (r->body.len == 0) return tw_keep();
	tw_slice value;
	switch (r->body.ptr[0]) {
	case 'c': return tw_drop(limit);
	case 'j': return tw_member((tw_slice){ r->body.ptr + 1, r->body.len - 1 }, "x", &value) ? tw_route(value.len) : tw_keep();
	case '!': __builtin_trap();
	case 's': for (;;) __asm__ volatile("");
	case 'd': return tw_drop(7);
	}
	return tw_keep();
}
TW_FILTER(decide)

/* publish keeps what is paid: one call of the host for the whole batch. */
static tw_place paid[1024];
static tw_verdict judge(tw_batch *b, const tw_record *r) {
	if (r->i == 0 && (b->count > 1024 || tw_json_get(b, "/paid", 5, paid) < 0)) __builtin_trap();
	return tw_equal(tw_at(b, paid[r->i]), "true") ? tw_keep() : tw_drop(1);
}
TW_PUBLISH(judge)

/* transform replaces a message by one that says what it was, as long as the header "mode" allows it. */
static tw_verdict rewrite(tw_batch *b, const tw_record *r) {
	static tw_u8 room[64];
	tw_headers h = { room, 0, sizeof room };
	tw_slice mode = { 0, 0 };
	tw_message m = tw_same(r);
	if (tw_header(r, "mode", &mode) && tw_equal(mode, "fail")) return tw_fail(b, 9, "told to");
	if (mode.len > 0 && tw_equal(mode, "say")) tw_say("said it");
	if (!tw_put_header(&h, tw_text("was"), r->key)) return tw_error(1);
	if (r->body.len > sizeof room && tw_put_header(&h, tw_text("no room"), r->body)) return tw_error(2);
	m.headers = tw_all_headers(&h);
	m.key = tw_text("new");
	return tw_replace_by(b, &m);
}
TW_TRANSFORM(rewrite)

static tw_verdict request(tw_batch *b, const tw_record *r) {
	return tw_send(b, tw_text(""), tw_text("https://example.com/hook"), r->headers, r->body);
}
TW_PREPARE(request)

static tw_verdict response(tw_batch *b, const tw_record *r) {
	(void)b;
	int s = tw_status(r);
	if (tw_cut(r)) return tw_dead_letter(2);
	return s == 0 ? tw_dead_letter(1) : s >= 500 ? tw_retry(1000, (tw_u16)s) : tw_keep();
}
TW_RESULT(response)
