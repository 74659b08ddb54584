// tidewheel.ts: the plugin ABI of Tidewheel for AssemblyScript, version 1. See plugins/abi/ABI.md.
//
//	import { Record, Verdict, drop, each, keep } from "./tidewheel";
//	export { tw_abi_1, tw_alloc } from "./tidewheel";
//
//	function decide(r: Record): Verdict {
//	  return r.body.length > 100 ? drop(1) : keep();
//	}
//	export function tw_filter(batch: usize): i32 { return each(batch, decide); }
//
//	asc plugin.ts -O3 --runtime minimal --use abort=tidewheel/abort -o plugin.wasm
//
// The hooks of a plugin are the functions that it exports: tw_publish, tw_filter, tw_transform, tw_prepare, tw_result. A plugin
// with a configuration exports tw_configure(ptr: usize, length: i32): i32 as well and returns 0, or -3 to refuse it; the JSON
// object is Slice.over(ptr, length), and member finds values in it.
//
// A Record and its slices are windows of the batch: they are valid until the function returns and belong to the host. What the
// function allocates is collected when the next call begins. abort, which the compiler calls for what TypeScript would throw,
// writes the reason into the host's log and traps: the record in hand is blamed, and the next ones meet a fresh instance.

/** What becomes of a record. Make one with keep, drop and so on. */
export type Verdict = u64;

// @ts-ignore: a decorator of AssemblyScript
@inline
function make(action: u64, code: u16, arg: u32): Verdict {
  return action | (<u64>code) << 16 | (<u64>arg) << 32;
}

/** The message goes on; for tw_result, the delivery is acknowledged. */
export function keep(): Verdict { return make(1, 0, 0); }
/** Forget the message; code says why. */
export function drop(code: u16 = 0): Verdict { return make(2, code, 0); }
/** Ask again after delayMs milliseconds; for tw_result, 0 leaves the delay to the host, which waits longer with each attempt. */
export function retryAfter(delayMs: u32, code: u16 = 0): Verdict { return make(3, code, delayMs); }
/** To the dead-letter topic; code says why. */
export function deadLetter(code: u16 = 0): Verdict { return make(4, code, 0); }
/** To the target with an index in the plugin's configuration. */
export function route(target: u32, code: u16 = 0): Verdict { return make(5, code, target); }
/** No opinion: the next plugin decides. */
export function defer(): Verdict { return make(8, 0, 0); }
/** Put another message in the place of this one. It is copied. */
export function replace(m: Message): Verdict { return make(6, 0, output(m.topic, m.key, m.headers, m.body)); }
/** For tw_prepare: have a request sent. It is copied. */
export function send(q: Request): Verdict { return make(6, 0, output(Slice.of(q.url), Slice.of(q.method), q.headers, q.body)); }
/** The plugin cannot decide: its failure policy does, and a dead letter carries code and reason. */
export function fail(code: u16, reason: string = ""): Verdict {
  return make(7, code, reason.length == 0 ? 0 : output(none, none, none, Slice.of(reason)) + 1);
}

/** Bytes: a window of the batch, or of memory of the plugin that lives as long as the slice. */
@final
export class Slice {
  ptr: usize = 0;
  length: i32 = 0;
  private owner: ArrayBuffer | null = null;

  /** The bytes of a text in UTF-8. */
  static of(s: string): Slice { return Slice.wrap(String.UTF8.encode(s)); }

  /** Bytes of the host: they are its own after the call. */
  static over(ptr: usize, length: i32): Slice {
    const s = new Slice();
    s.ptr = ptr;
    s.length = length;
    return s;
  }

  /** The bytes of a buffer. */
  static wrap(b: ArrayBuffer): Slice {
    const s = new Slice();
    s.owner = b;
    s.ptr = changetype<usize>(b);
    s.length = b.byteLength;
    return s;
  }

  /** The byte at i; beyond the end the plugin aborts. */
  // @ts-ignore: a decorator of AssemblyScript
  @inline @operator("[]")
  at(i: i32): u8 {
    assert(<u32>i < <u32>this.length, "index outside of the slice");
    return load<u8>(this.ptr + i);
  }

  /** Whether the bytes are those of a text. It allocates nothing for ASCII. */
  equals(s: string): bool {
    for (let i = 0, n = s.length; i < n; i++) {
      const c = <u32>s.charCodeAt(i);
      if (c >= 0x80) {
        const b = String.UTF8.encode(s);
        return b.byteLength == this.length && memory.compare(changetype<usize>(b), this.ptr, this.length) == 0;
      }
      if (i >= this.length || <u32>load<u8>(this.ptr + i) != c) return false;
    }
    return s.length == this.length;
  }

  /** A copy of the bytes. */
  bytes(): Uint8Array {
    const b = new Uint8Array(this.length);
    memory.copy(b.dataStart, this.ptr, this.length);
    return b;
  }

  /** The text that the bytes are in UTF-8. */
  toString(): string { return text(this.ptr, this.length); }
}

const none = new Slice();

/** The text that the bytes at ptr are in UTF-8. */
export function text(ptr: usize, length: i32): string { return String.UTF8.decodeUnsafe(ptr, length); }

function space(j: Slice, p: i32): i32 {
  while (p < j.length && j[p] <= 0x20) p++;
  return p;
}

/** The end of the JSON value at p. */
function valueEnd(j: Slice, p: i32): i32 {
  let depth = 0, quoted = false;
  for (; p < j.length; p++) {
    const c = j[p];
    if (quoted) {
      if (c == 0x5c /* \ */) p++;
      else if (c == 0x22 /* " */) {
        quoted = false;
        if (depth == 0) return p + 1;
      }
    } else if (c == 0x22) quoted = true;
    else if (c == 0x7b /* { */ || c == 0x5b /* [ */) depth++;
    else if (c == 0x7d /* } */ || c == 0x5d /* ] */) {
      if (depth == 0) return p;
      if (--depth == 0) return p + 1;
    } else if (depth == 0 && (c == 0x2c /* , */ || c == 0x3a /* : */ || c <= 0x20)) return p;
  }
  return j.length;
}

/**
 * The member of a name of the object that a JSON text is: its value, of a string without the quotes; null when there is none.
 * Escapes in names and strings stay as they are. It is meant for the configuration; in bodies, Json finds values for a whole
 * batch.
 */
export function member(json: Slice, name: string): Slice | null {
  let p = space(json, 0);
  if (p >= json.length || json[p] != 0x7b) return null;
  do {
    p = space(json, p + 1);
    let end = valueEnd(json, p);
    if (end < p + 2 || json[p] != 0x22) return null;
    const key = Slice.over(json.ptr + p + 1, end - p - 2);
    p = space(json, end);
    if (p >= json.length || json[p] != 0x3a) return null;
    p = space(json, p + 1);
    end = valueEnd(json, p);
    if (end == p) return null;
    if (key.equals(name)) {
      const text = json[p] == 0x22 && end >= p + 2 ? 1 : 0;
      return Slice.over(json.ptr + p + text, end - p - 2 * text);
    }
    p = space(json, end);
  } while (p < json.length && json[p] == 0x2c);
  return null;
}

/** Headers of a message or a request that the plugin makes. */
@final
export class Headers {
  private b: ArrayBuffer = new ArrayBuffer(0);

  /** Adds a header. */
  append(name: string, value: string): Headers { return this.appendSlice(Slice.of(name), Slice.of(value)); }

  /** Adds a header. A name has at most 65,535 bytes. */
  appendSlice(name: Slice, value: Slice): Headers {
    assert(name.length < 1 << 16, "header name too long");
    const old = this.b, at = old.byteLength;
    const b = new ArrayBuffer(at + ((8 + name.length + value.length + 3) & ~3));
    const p = changetype<usize>(b);
    memory.copy(p, changetype<usize>(old), at);
    store<u32>(p + at, name.length);
    store<u32>(p + at, value.length, 4);
    memory.copy(p + at + 8, name.ptr, name.length);
    memory.copy(p + at + 8 + name.length, value.ptr, value.length);
    this.b = b;
    return this;
  }

  /** Adds those headers of a record that are not called name; an empty name takes all. */
  appendAll(r: Record, name: string = ""): Headers {
    const all = r.headers, end = all.ptr + all.length;
    for (let p = all.ptr; p + 8 <= end; p = entryEnd(p)) {
      if (entryEnd(p) > end) break;
      entry(p);
      if (name.length == 0 || !key.equals(name)) this.appendSlice(key, value);
    }
    return this;
  }

  /** The bytes as they lie in a batch. */
  slice(): Slice { return Slice.wrap(this.b); }
}

// The header that entry looked at last.
const key = new Slice();
const value = new Slice();

function entryEnd(p: usize): usize {
  return p + ((8 + <usize>load<u16>(p) + <usize>load<u32>(p, 4) + 3) & ~3);
}

function entry(p: usize): void {
  key.ptr = p + 8;
  key.length = load<u16>(p);
  value.ptr = key.ptr + key.length;
  value.length = load<u32>(p, 4);
}

/** A message that the plugin is asked about. */
@final
export class Record {
  /** Its number in the batch. */
  index: i32 = 0;
  body: Slice = new Slice();
  /** @internal Where its entry in the index is. */
  at: usize = 0;
  private parts: StaticArray<Slice> = [new Slice(), new Slice(), new Slice()];

  get topic(): Slice { return this.part(0, 32); }
  get key(): Slice { return this.part(1, 40); }
  /** The headers as they lie in the batch; see header. */
  get headers(): Slice { return this.part(2, 48); }

  private part(i: i32, offset: usize): Slice {
    const s = unchecked(this.parts[i]);
    s.ptr = batch + load<u32>(this.at + offset);
    s.length = load<u32>(this.at + offset, 4);
    return s;
  }

  get id(): u64 { return load<u64>(this.at); }
  /** When the message was stored, ms since the epoch. */
  get storedMs(): i64 { return load<i64>(this.at, 8); }
  /** When it is due, ms since the epoch; 0 for a message without delay. */
  get dueMs(): i64 { return load<i64>(this.at, 16); }
  get attempt(): u32 { return load<u32>(this.at, 24); }
  /** The time of the call, ms since the epoch: the only clock. */
  get nowMs(): i64 { return load<i64>(batch, 48); }
  /** For tw_result: the HTTP status, 0 when no response came and the body is the reason. */
  get status(): i32 {
    const flags = load<u32>(this.at, 28);
    return flags & 1 ? 0 : <i32>(flags >> 16);
  }

  /** For tw_result: whether the response was longer than the host takes, and the body is its beginning. */
  get cut(): bool { return (load<u32>(this.at, 28) & 2) != 0; }

  /** The value of the first header of a name, null when there is none. It is valid until the next call of header. */
  header(name: string): Slice | null {
    const all = this.headers, end = all.ptr + all.length;
    for (let p = all.ptr; p + 8 <= end; p = entryEnd(p)) {
      if (entryEnd(p) > end) break;
      entry(p);
      if (key.equals(name)) return value;
    }
    return null;
  }
}

/** What a message is replaced with: at first all of a record. */
@final
export class Message {
  topic: Slice;
  key: Slice;
  headers: Slice;
  body: Slice;

  constructor(r: Record) {
    this.topic = r.topic;
    this.key = r.key;
    this.headers = r.headers;
    this.body = r.body;
  }
}

/** An HTTP request for the host to send. */
@final
export class Request {
  url: string = "";
  /** POST when empty. */
  method: string = "";
  headers: Slice = none;
  body: Slice = none;
}

// @ts-ignore: a decorator of AssemblyScript
@external("tw_v1", "log")
declare function hostLog(level: i32, ptr: usize, length: i32): i32;
// @ts-ignore: a decorator of AssemblyScript
@external("tw_v1", "json_get")
declare function hostJson(batch: usize, ptr: usize, length: i32, out: usize): i32;
// @ts-ignore: a decorator of AssemblyScript
@external("tw_v1", "hdr_get")
declare function hostHeader(batch: usize, ptr: usize, length: i32, out: usize): i32;
// @ts-ignore: a decorator of AssemblyScript
@external("tw_v1", "match")
declare function hostMatch(batch: usize, field: i32, ptr: usize, length: i32, out: usize): i32;

/** Levels of log lines. */
export enum Level { Debug = -4, Info = 0, Warn = 4, Error = 8 }

/** Writes a line into the host's log. */
export function log(line: string, level: Level = Level.Info): void {
  const b = String.UTF8.encode(line);
  hostLog(level, changetype<usize>(b), b.byteLength);
}

/** @internal What all columns are: memory for the answers of the host about a whole batch. */
class Column {
  protected name: ArrayBuffer;
  protected out: usize = 0;
  private room: i32 = 0;
  private call: u32 = 0;
  protected found: Slice = new Slice();

  constructor(name: string) { this.name = String.UTF8.encode(name); }

  /** Whether the host is still to be asked about this batch; there is room for its answers then. */
  protected ask(size: i32): bool {
    if (this.call == calls) return false;
    const need = <i32>load<u32>(batch, 8) * size;
    if (need > this.room) {
      if (this.out != 0) heap.free(this.out);
      this.out = heap.alloc(need);
      this.room = need;
    }
    this.call = calls;
    return true;
  }

  protected place(r: Record): Slice | null {
    const p = this.out + 8 * <usize>r.index;
    if (load<u32>(p, 4) == 0) return null;
    this.found.ptr = batch + load<u32>(p);
    this.found.length = load<u32>(p, 4);
    return this.found;
  }
}

/**
 * The values that a JSON pointer (RFC 6901) names in the bodies of a batch, found by the host in one call. Make one outside of
 * all functions. The plugin must be granted json.
 */
@final
export class Json extends Column {
  constructor(pointer: string) { super(pointer); }

  /** The value in the body of r, strings with their quotes; null when there is none. It is valid until the next call of of. */
  of(r: Record): Slice | null {
    if (this.ask(8)) check(hostJson(batch, changetype<usize>(this.name), this.name.byteLength, this.out), "json_get");
    return this.place(r);
  }
}

/** The values of a header in a batch, found by the host in one call, as Json. The plugin must be granted headers. */
@final
export class Header extends Column {
  constructor(name: string) { super(name); }

  /** The value of the header of r; null when there is none or it is empty. It is valid until the next call of of. */
  of(r: Record): Slice | null {
    if (this.ask(8)) check(hostHeader(batch, changetype<usize>(this.name), this.name.byteLength, this.out), "hdr_get");
    return this.place(r);
  }
}

/** What a Pattern looks at. */
export enum Field { Topic = 0, Key = 1, Body = 2 }

/**
 * Which records of a batch match a pattern, in which * is any bytes and ? one; found by the host in one call, as Json. The plugin
 * must be granted match.
 */
@final
export class Pattern extends Column {
  private field: Field;

  constructor(field: Field, pattern: string) {
    super(pattern);
    this.field = field;
  }

  /** Whether r matches. */
  matches(r: Record): bool {
    if (this.ask(1)) check(hostMatch(batch, this.field, changetype<usize>(this.name), this.name.byteLength, this.out), "match");
    return load<u8>(this.out + r.index) != 0;
  }
}

function check(n: i32, what: string): void {
  if (n < 0) throw new Error(what + " returned " + n.toString());
}

// The call in hand.
let batch: usize = 0;
let calls: u32 = 0;
const record = new Record();

// The output batch of the call: header, room for an index entry per record, blob.
let out: usize = 0;
let outRoom: usize = 0;
let outEnd: usize = 0;
let outCount: u32 = 0;

// The last object that was made before the plugin's own. The runtime links each new one behind the last, so that this link
// changes when the plugin makes one. When it makes none there is nothing to collect, and to find that out by collecting would
// take longer than a small batch does.
let last: Slice = none;
let link: usize = 0;

function collect(): void {
  if (load<usize>(changetype<usize>(last) - 16) == link) return;
  __collect();
  last = new Slice();
  link = load<usize>(changetype<usize>(last) - 16);
}

/** What a hook is: it asks decide about each record, in order. */
export function each(b: usize, decide: (r: Record) => Verdict): i32 {
  if (load<u32>(b) != 0x31425754) return -2;
  collect();
  batch = b;
  calls++;
  outCount = 0;
  // Everything that is read again and again is a local: this loop is most of what a small plugin costs.
  const n = <i32>load<u32>(b, 8), stride = <usize>load<u16>(b, 6);
  const r = record, body = r.body;
  let at = b + load<u32>(b, 24), verdict = b + load<u32>(b, 20);
  for (let i = 0; i < n; i++) {
    store<u32>(b, i, 44);
    r.index = i;
    r.at = at;
    body.ptr = b + load<u32>(at, 56);
    body.length = load<u32>(at, 60);
    store<u64>(verdict, decide(r));
    at += stride;
    verdict += 8;
  }
  if (outCount > 0) finish(load<u8>(b, 4));
  return 0;
}

/** output adds a record to the output batch and returns its index. */
function output(topic: Slice, key: Slice, headers: Slice, body: Slice): u32 {
  if (outCount == 0) {
    outEnd = 64 + 64 * <usize>load<u32>(batch, 8);
    reserve(0);
  }
  // A function may make more than it returns; only so many have a verdict that refers to them.
  if (outCount >= load<u32>(batch, 8)) throw new Error("more outputs than records");
  reserve(pad(topic.length) + pad(key.length) + pad(headers.length) + pad(body.length));
  const at: usize = 64 + 64 * <usize>outCount;
  memory.fill(out + at, 0, 64);
  put(at + 32, topic);
  put(at + 40, key);
  put(at + 48, headers);
  put(at + 56, body);
  return outCount++;
}

// @ts-ignore: a decorator of AssemblyScript
@inline
function pad(n: i32): usize { return (<usize>n + 3) & ~3; }

function reserve(more: usize): void {
  if (outEnd + more <= outRoom) return;
  outRoom = 2 * (outEnd + more);
  out = out == 0 ? heap.alloc(outRoom) : heap.realloc(out, outRoom);
}

function put(at: usize, s: Slice): void {
  store<u32>(out + at, <u32>outEnd);
  store<u32>(out + at, s.length, 4);
  memory.copy(out + outEnd, s.ptr, s.length);
  outEnd += pad(s.length);
}

function finish(hook: u8): void {
  memory.fill(out, 0, 64);
  store<u32>(out, 0x31425754);
  store<u8>(out, hook, 4);
  store<u16>(out, 64, 6);
  store<u32>(out, outCount, 8);
  store<u32>(out, 64, 12);
  store<u32>(out, <u32>outEnd, 16);
  store<u32>(out, 64, 20); // nobody reads the verdicts of an output
  store<u32>(out, 64, 24);
  store<u32>(out, 64 + 64 * load<u32>(batch, 8), 28);
  store<u32>(batch, <u32>out, 32);
  store<u32>(batch, <u32>outEnd, 36);
}

/** The marker of the ABI; export it. */
export function tw_abi_1(): void {}

let arena: usize = 0;
let arenaSize: u32 = 0;

/** The region of the host; export it. */
export function tw_alloc(size: u32): usize {
  if (size > arenaSize) {
    if (arena != 0) heap.free(arena);
    arena = heap.alloc(size);
    arenaSize = size;
  }
  return arena;
}

/** What the compiler calls for an error: it writes the reason and the place into the host's log and traps. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  let text = message === null ? "abort" : message;
  if (file !== null) text += " (" + file + ":" + line.toString() + ":" + column.toString() + ")";
  log(text, Level.Error);
  unreachable();
}
