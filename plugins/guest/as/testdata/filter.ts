// The AssemblyScript plugin of the tests: it does what the C plugin does, with the same answers.

import {
  Field, Header, Headers, Json, Message, Pattern, Record, Request, Slice, Verdict,
  deadLetter, defer, drop, each, fail, keep, log, member, replace, retryAfter, route, send, text,
} from "../tidewheel";
export { tw_abi_1, tw_alloc } from "../tidewheel";

let config = "";
let limit = 0;

export function tw_configure(ptr: usize, length: i32): i32 {
  const json = Slice.over(ptr, length);
  if (member(json, "refuse") !== null) return -3;
  const value = member(json, "limit");
  if (value !== null) limit = I32.parseInt(value.toString());
  config = text(ptr, length);
  return 0;
}

export function tw_filter(batch: usize): i32 {
  return each(batch, (r: Record): Verdict => {
    if (r.body.length == 0) return keep();
    switch (r.body[0]) {
      case 0x21: throw new Error("poison"); // !
      case 0x73: for (;;) {} // s
      case 0x64: return drop(7); // d
      case 0x63: return drop(<u16>limit); // c
      case 0x65: return fail(3, config); // e
      case 0x6a: // j
        const value = member(Slice.over(r.body.ptr + 1, r.body.length - 1), "x");
        return value !== null ? route(value.length) : keep();
      case 0x6f: return drop(r.body[100]); // o: outside
      case 0x72: return route(2); // r
      case 0x66: return defer(); // f
      case 0x6d: // m: much garbage, all of it gone by the next call
        let n = 0;
        for (let i = 0; i < 100; i++) n += new Uint8Array(1000).length;
        return drop(<u16>(n / 1000));
      case 0x74: return retryAfter(<u32>(r.dueMs - r.storedMs), <u16>(r.nowMs % 1000)); // t
    }
    return keep();
  });
}

const paid = new Json("/paid");
const mode = new Header("mode");
const ord = new Pattern(Field.Topic, "ord*");

export function tw_publish(batch: usize): i32 {
  return each(batch, (r: Record): Verdict => {
    const p = paid.of(r);
    if (p === null || !p.equals("true")) return drop(1);
    if (!ord.matches(r)) return drop(2);
    const m = mode.of(r);
    return m !== null && m.toString() == "föhn" && m.equals("föhn") ? drop(3) : keep();
  });
}

export function tw_transform(batch: usize): i32 {
  return each(batch, (r: Record): Verdict => {
    const mode = r.header("mode");
    if (mode !== null && mode.equals("fail")) return fail(9, "told to");
    if (mode !== null && mode.equals("say")) log("said it");
    const m = new Message(r);
    m.headers = new Headers().appendSlice(Slice.of("was"), r.key).slice();
    m.key = Slice.of("new");
    return replace(m);
  });
}

export function tw_prepare(batch: usize): i32 {
  return each(batch, (r: Record): Verdict => {
    const q = new Request();
    q.url = "https://example.com/hook";
    q.headers = new Headers().appendAll(r, "secret").slice();
    q.body = r.body;
    return send(q);
  });
}

export function tw_result(batch: usize): i32 {
  return each(batch, (r: Record): Verdict => {
    if (r.cut) return deadLetter(2);
    if (r.status == 0) return deadLetter(1);
    return r.status >= 500 ? retryAfter(1000, <u16>r.status) : keep();
  });
}
