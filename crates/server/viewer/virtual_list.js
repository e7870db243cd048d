// A list of which only the rows that are to be seen exist: a hundred thousand of them cost what fifty do.

import { h, setAttribute } from "./dom.js";
import { oncePerPicture } from "./pacing.js";

/** Rows above and below what is seen, so that a short scroll has nothing to make. */
const OVERSCAN = 8;

/** Browsers do not lay out what is higher (Firefox's limit is some 17 million pixels). A longer list scrolls in larger steps. */
const MOST_PIXELS = 8_000_000;

let lists = 0;

/**
 * A scrolling list of rows of one height. The list has the focus, and its active row moves with the keys: arrows, Page Up and
 * Page Down, Home and End; Enter and Space open it, as a click does.
 *
 * Where the reader is at the end, the list stays at the end while rows come (`following`); anywhere else nothing moves.
 */
export class VirtualList {
  #make;
  #fill;
  #onOpen;
  #onActive;
  #onKey;
  #onFollowing;
  #describe;
  #itemRole;
  #rowHeight;
  #sizer = h("div", { class: "rows", role: "presentation" });
  #id = `list-${(lists += 1)}`;
  #count = 0;
  #active = -1;
  #rows = new Map();
  #spare = [];
  #draw;
  #following;
  /** Where the list has put itself last; `undefined` once a person has scrolled from there. */
  #ownTop;
  #stale = false;
  #height = 0;
  /** How high all rows are together, as the page was told. */
  #sized = 0;

  /**
   * @param {object} options
   * @param {string} options.label what the list is called
   * @param {() => HTMLElement} options.make an empty row
   * @param {(row: HTMLElement, index: number) => void} options.fill puts what is at an index into a row, whatever was in it
   * @param {AbortSignal} options.signal
   * @param {number} [options.rowHeight] in pixels; 24 unless given
   * @param {"listbox" | "tree"} [options.role]
   * @param {(index: number) => object} [options.describe] further attributes of a row, such as `aria-level`
   * @param {boolean} [options.following] whether it begins at its end and stays there
   * @param {(index: number) => void} [options.onActive] the active row is another one
   * @param {(index: number, event: Event) => void} [options.onOpen] Enter, Space or a click on a row
   * @param {(event: KeyboardEvent, index: number) => void} [options.onKey] a key that the list has no use for
   * @param {(following: boolean) => void} [options.onFollowing]
   */
  constructor({
    label,
    make,
    fill,
    signal,
    rowHeight = 24,
    role = "listbox",
    describe = () => ({}),
    following = false,
    onActive = () => {},
    onOpen = () => {},
    onKey = () => {},
    onFollowing = () => {},
  }) {
    this.#make = make;
    this.#fill = fill;
    this.#rowHeight = rowHeight;
    this.#describe = describe;
    this.#following = following;
    this.#onActive = onActive;
    this.#onOpen = onOpen;
    this.#onKey = onKey;
    this.#onFollowing = onFollowing;
    this.#itemRole = role === "tree" ? "treeitem" : "option";
    this.element = h("div", { class: "virtual-list", role, tabindex: 0, "aria-label": label }, this.#sizer);
    this.#draw = oncePerPicture(() => this.#drawNow(), signal);
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("click", (event) => this.#click(event));
    const sizes = new ResizeObserver(() => {
      this.#height = this.element.clientHeight;
      this.#draw();
    });
    sizes.observe(this.element);
    signal.addEventListener("abort", () => sizes.disconnect());
  }

  /** The rows that there are. */
  get count() {
    return this.#count;
  }

  /** The active row, or -1. */
  get active() {
    return this.#active;
  }

  /** Whether the list stays at its end. */
  get following() {
    return this.#following;
  }

  set following(following) {
    if (following !== this.#following) {
      this.#following = following;
      this.#onFollowing(following);
    }
    this.#draw();
  }

  /** There are so many rows now. Rows that were there may hold something else when `stale` is true. */
  setCount(count, { stale = false } = {}) {
    this.#count = count;
    this.#stale ||= stale;
    if (this.#active >= count) this.#active = count - 1;
    this.#draw();
  }

  /** What is in every row may be another thing. Only those that are seen are filled again. */
  refresh() {
    this.#stale = true;
    this.#draw();
  }

  /** What is at this index may be another thing. */
  refreshRow(index) {
    const row = this.#rows.get(index);
    if (row !== undefined) this.#fillRow(row, index);
  }

  /** The first row that is to be seen, at least in part. */
  get first() {
    return Math.max(0, Math.min(this.#count - 1, Math.floor(this.#top() / this.#rowHeight)));
  }

  /**
   * There are so many rows now, in another order. `shift` rows more (or fewer) than before are in front of what is seen, which
   * stays where it is on the screen. `active` is where the active row has gone to; nobody is told of that.
   */
  reordered({ count, shift = 0, active = this.#active }) {
    this.#count = count;
    this.#active = active;
    if (shift !== 0 && !this.#following && this.#scale() === 1) {
      this.#resize();
      this.#scrollTo(this.element.scrollTop + shift * this.#rowHeight);
    }
    this.#stale = true;
    this.#draw();
  }

  /** Makes a row the active one and brings it into view. */
  activate(index, { align = "nearest" } = {}) {
    if (this.#count === 0) return;
    const to = Math.max(0, Math.min(index, this.#count - 1));
    if (to < this.#count - 1) this.following = false;
    const changed = to !== this.#active;
    this.#active = to;
    this.reveal(to, align);
    this.#draw();
    if (changed) this.#onActive(to);
  }

  /** Brings a row into view: `nearest`, or into the `middle`. */
  reveal(index, align = "nearest") {
    this.#resize();
    const height = this.element.clientHeight;
    const top = index * this.#rowHeight;
    const from = this.#top();
    let to = from;
    if (align === "middle") to = top - (height - this.#rowHeight) / 2;
    else if (top < from) to = top;
    else if (top + this.#rowHeight > from + height) to = top + this.#rowHeight - height;
    if (to !== from) this.#scrollTo(Math.max(0, to) / this.#scale());
    this.#draw();
  }

  /** Pixels of the whole list for one of what is scrolled. 1 but for lists that are higher than browsers can lay out. */
  #scale() {
    const whole = this.#count * this.#rowHeight - this.#height;
    const most = MOST_PIXELS - this.#height;
    return whole <= most || most <= 0 ? 1 : whole / most;
  }

  /** How many pixels of the whole list are above what is seen. */
  #top() {
    return this.element.scrollTop * this.#scale();
  }

  #resize() {
    this.#height = this.element.clientHeight;
    const height = Math.min(MOST_PIXELS, this.#count * this.#rowHeight);
    if (height === this.#sized) return;
    this.#sizer.style.height = `${height}px`;
    // A list that became shorter may have been moved by that, which is nobody's scroll.
    if (height < this.#sized) this.#ownTop = this.element.scrollTop;
    this.#sized = height;
  }

  #scrollTo(pixels) {
    this.element.scrollTop = pixels;
    this.#ownTop = this.element.scrollTop;
  }

  /**
   * A scroll is told by where it leads, and not by who began one last: while rows come the list goes to its end before every
   * picture, and a person who pulls it up has to win against that.
   */
  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    const isOwn = this.#ownTop !== undefined && Math.abs(scrollTop - this.#ownTop) <= 1;
    if (!isOwn) {
      const isUpwards = this.#ownTop !== undefined && scrollTop < this.#ownTop;
      this.#ownTop = undefined;
      this.following = !(this.#following && isUpwards) && scrollTop + clientHeight >= scrollHeight - this.#rowHeight;
    }
    this.#draw();
  }

  #drawNow() {
    this.#resize();
    if (this.#following) this.#scrollTo(this.element.scrollHeight);
    const top = this.#top();
    const first = Math.max(0, Math.floor(top / this.#rowHeight) - OVERSCAN);
    const last = Math.min(this.#count - 1, Math.ceil((top + this.#height) / this.#rowHeight) + OVERSCAN);
    for (const [index, row] of this.#rows) {
      if (index >= first && index <= last) continue;
      this.#rows.delete(index);
      this.#spare.push(row);
    }
    const offset = this.element.scrollTop - top;
    for (let index = first; index <= last; index += 1) {
      let row = this.#rows.get(index);
      const isNew = row === undefined;
      if (isNew) {
        row = this.#spare.pop() ?? this.#newRow();
        this.#rows.set(index, row);
      }
      const place = `translateY(${index * this.#rowHeight + offset}px)`;
      if (row.style.transform !== place) row.style.transform = place;
      if (isNew || this.#stale) this.#fillRow(row, index);
      // In a tree it is the siblings that are counted, and `describe` says how many.
      if (this.#itemRole === "option") setAttribute(row, "aria-setsize", this.#count);
      setAttribute(row, "aria-selected", index === this.#active ? "true" : "false");
    }
    for (const row of this.#spare) row.remove();
    this.#spare.length = Math.min(this.#spare.length, 64);
    this.#stale = false;
    setAttribute(this.element, "aria-activedescendant", this.#rows.has(this.#active) && `${this.#id}-${this.#active}`);
  }

  #newRow() {
    const row = this.#make();
    row.classList.add("row");
    row.setAttribute("role", this.#itemRole);
    row.style.height = `${this.#rowHeight}px`;
    return row;
  }

  #fillRow(row, index) {
    row.dataset.index = index;
    row.id = `${this.#id}-${index}`;
    setAttribute(row, "aria-posinset", index + 1);
    this.#fill(row, index);
    for (const [name, value] of Object.entries(this.#describe(index))) setAttribute(row, name, value);
    if (!row.isConnected) this.#sizer.append(row);
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target !== this.element) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.#rowHeight) - 1);
    const from = this.#active < 0 ? Math.ceil(this.#top() / this.#rowHeight) - 1 : this.#active;
    const to = {
      ArrowDown: from + 1,
      ArrowUp: from - 1,
      PageDown: from + page,
      PageUp: from - page,
      Home: 0,
      End: this.#count - 1,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.activate(to);
    } else if ((event.key === "Enter" || event.key === " ") && this.#active >= 0) {
      event.preventDefault();
      this.#onOpen(this.#active, event);
    } else {
      this.#onKey(event, this.#active);
    }
  }

  #click(event) {
    const row = event.target instanceof Element ? event.target.closest(".row") : null;
    if (row === null) return;
    const index = Number(row.dataset.index);
    this.activate(index);
    this.#onOpen(index, event);
  }
}
