// A transform that hides card numbers: of each run of 13 to 19 digits in a body, only the last four are left.

import { Headers, Message, Record, Slice, Verdict, defer, each, replace } from "../../../../plugins/guest/as/tidewheel";
export { tw_abi_1, tw_alloc } from "../../../../plugins/guest/as/tidewheel";

export function tw_transform(batch: usize): i32 {
  return each(batch, mask);
}

function mask(r: Record): Verdict {
  const body = r.body;
  let hidden: Uint8Array | null = null;
  let from = 0; // where the run of digits in hand begins
  for (let i = 0; i <= body.length; i++) {
    if (i < body.length && isDigit(body[i])) continue;
    if (i - from >= 13 && i - from <= 19) {
      if (hidden === null) hidden = body.bytes();
      hidden.fill(0x2a /* '*' */, from, i - 4);
    }
    from = i + 1;
  }
  if (hidden === null) return defer();
  const m = new Message(r);
  m.body = Slice.wrap(hidden.buffer);
  m.headers = new Headers().appendAll(r, "masked").append("masked", "true").slice();
  return replace(m);
}

function isDigit(c: u8): bool {
  return c >= 0x30 && c <= 0x39;
}
