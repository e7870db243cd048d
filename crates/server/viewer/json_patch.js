// JSON Patch (RFC 6902) on plain JSON values. All operations of a patch hold, or none does.

/** Why a patch does not apply: which operation, and what is wrong with it. */
export class PatchError extends Error {}

/**
 * The value with the patch applied. The value that was given stays as it is, and the two share what did not change.
 *
 * @param {unknown} value
 * @param {unknown} patch a list of operations
 * @throws PatchError when one of them does not apply
 */
export function applyPatch(value, patch) {
  if (!Array.isArray(patch)) throw new PatchError("a patch is a list of operations");
  return patch.reduce((now, operation, i) => {
    try {
      return applied(now, Object(operation));
    } catch (error) {
      if (error instanceof PatchError) throw new PatchError(`operation ${i}: ${error.message}`);
      throw error;
    }
  }, value);
}

function applied(value, operation) {
  const path = stepsOf(operation.path, "path");
  switch (operation.op) {
    case "add":
      return added(value, path, given(operation));
    case "remove":
      return removed(value, path);
    case "replace":
      return replaced(value, path, given(operation));
    case "move": {
      const from = stepsOf(operation.from, "from");
      const moved = at(value, from);
      if (path.length > from.length && from.every((step, i) => step === path[i])) {
        throw new PatchError("a value cannot be moved into itself");
      }
      return added(removed(value, from), path, moved);
    }
    case "copy":
      return added(value, path, at(value, stepsOf(operation.from, "from")));
    case "test":
      if (!isSame(at(value, path), given(operation))) throw new PatchError(`\`${operation.path}\` is another value`);
      return value;
    default:
      throw new PatchError(`\`${operation.op}\` is no operation`);
  }
}

function given(operation) {
  if (!Object.hasOwn(operation, "value")) throw new PatchError("it has no `value`");
  return operation.value;
}

/** The steps of a JSON Pointer (RFC 6901). */
function stepsOf(pointer, name) {
  if (pointer === "") return [];
  if (typeof pointer !== "string" || !pointer.startsWith("/")) throw new PatchError(`its \`${name}\` is no JSON Pointer`);
  return pointer
    .slice(1)
    .split("/")
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The place of a list that a step names; `end` allows the one behind the last. */
function placeIn(list, step, end) {
  if (end && step === "-") return list.length;
  const place = /^(0|[1-9]\d*)$/.test(step) ? Number(step) : NaN;
  if (!(place < list.length + (end ? 1 : 0))) throw new PatchError(`there is no place \`${step}\` in a list of ${list.length}`);
  return place;
}

const isHolder = (value) => value !== null && typeof value === "object";

/** The value under one step. */
function child(value, step) {
  if (Array.isArray(value)) return value[placeIn(value, step, false)];
  if (!isHolder(value) || !Object.hasOwn(value, step)) throw new PatchError(`there is nothing at \`${step}\``);
  return value[step];
}

const at = (value, steps) => steps.reduce(child, value);

/** A copy of an object with this member, whatever its name. */
function withMember(object, name, value) {
  return Object.defineProperty({ ...object }, name, { value, enumerable: true, configurable: true, writable: true });
}

/** The value with what stands behind the steps but for the last changed by `change(holder, last)`. */
function changed(value, [step, ...rest], change) {
  if (rest.length === 0) return change(value, step);
  const inside = changed(child(value, step), rest, change);
  return Array.isArray(value) ? value.with(Number(step), inside) : withMember(value, step, inside);
}

function added(value, path, what) {
  if (path.length === 0) return what;
  return changed(value, path, (holder, step) => {
    if (Array.isArray(holder)) return holder.toSpliced(placeIn(holder, step, true), 0, what);
    if (!isHolder(holder)) throw new PatchError(`nothing can be added at \`${step}\`: it is in neither an object nor a list`);
    return withMember(holder, step, what);
  });
}

function removed(value, path) {
  if (path.length === 0) return null;
  return changed(value, path, (holder, step) => {
    child(holder, step);
    if (Array.isArray(holder)) return holder.toSpliced(Number(step), 1);
    const { [step]: _, ...rest } = holder;
    return rest;
  });
}

function replaced(value, path, what) {
  if (path.length === 0) return what;
  return changed(value, path, (holder, step) => {
    child(holder, step);
    return Array.isArray(holder) ? holder.with(Number(step), what) : withMember(holder, step, what);
  });
}

function isSame(one, other) {
  if (one === other) return true;
  if (!isHolder(one) || !isHolder(other) || Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]))
  );
}
