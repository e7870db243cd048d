// JSON Patch (RFC 6902): `node --test` runs these.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PatchError, applyPatch } from "../../viewer/json_patch.js";

const holds = [
  [{ a: 1 }, [{ op: "add", path: "/b", value: [2] }], { a: 1, b: [2] }],
  [[1, 3], [{ op: "add", path: "/1", value: 2 }], [1, 2, 3]],
  [[1], [{ op: "add", path: "/-", value: 2 }], [1, 2]],
  [{ a: { b: 1 } }, [{ op: "remove", path: "/a/b" }], { a: {} }],
  [[1, 2], [{ op: "remove", path: "/0" }], [2]],
  [{ a: 1 }, [{ op: "replace", path: "", value: 7 }], 7],
  [{ "a/b": { "c~d": 1 } }, [{ op: "replace", path: "/a~1b/c~0d", value: 2 }], { "a/b": { "c~d": 2 } }],
  [{ a: [1], b: 2 }, [{ op: "move", from: "/b", path: "/a/0" }], { a: [2, 1] }],
  [{ a: [1] }, [{ op: "copy", from: "/a", path: "/b" }], { a: [1], b: [1] }],
  [{ a: { x: [1, null] } }, [{ op: "test", path: "/a", value: { x: [1, null] } }], { a: { x: [1, null] } }],
  [{ "": 1 }, [{ op: "replace", path: "/", value: 2 }], { "": 2 }],
];

test("each operation does what it says", () => {
  for (const [value, patch, expected] of holds) {
    const before = JSON.stringify(value);
    assert.deepEqual(applyPatch(value, patch), expected, JSON.stringify(patch));
    assert.equal(JSON.stringify(value), before, "what was given stays as it is");
  }
});

test("an operation that does not apply takes the whole patch with it, and is named", () => {
  const wrong = [
    { op: "remove", path: "/none" },
    { op: "replace", path: "/none", value: 1 },
    { op: "add", path: "/list/4", value: 1 },
    { op: "add", path: "/list/01", value: 1 },
    { op: "remove", path: "/list/-" },
    { op: "add", path: "/text/x", value: 1 },
    { op: "add", path: "/new" },
    { op: "add", path: "new", value: 1 },
    { op: "test", path: "/text", value: "other" },
    { op: "move", from: "/object", path: "/object/inside" },
    { op: "twist", path: "/text" },
    null,
  ];
  for (const operation of wrong) {
    const value = { list: [1], text: "x", object: {} };
    const patch = [{ op: "add", path: "/first", value: 1 }, operation];
    assert.throws(() => applyPatch(value, patch), (error) => error instanceof PatchError && /^operation 1: /.test(error.message));
    assert.deepEqual(value, { list: [1], text: "x", object: {} });
  }
  assert.throws(() => applyPatch({}, {}), PatchError);
});

test("a member may have any name, and changes no prototype", () => {
  const value = applyPatch({}, [{ op: "add", path: "/__proto__", value: { polluted: true } }]);
  assert.deepEqual(Object.keys(value), ["__proto__"]);
  assert.equal({}.polluted, undefined);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  assert.throws(() => applyPatch({}, [{ op: "remove", path: "/toString" }]), PatchError);
});
