//! How deeply a JSON value may nest that goes into a frame.
//!
//! Readers of JSON bound the depth that they follow, commonly at 128 levels. The envelope and its data add a few to
//! the value's own, so what is put into a log is bounded below that: a frame that was written can be read.

/// The most levels that a JSON value inside a frame's data may nest.
pub const MAX_VALUE_DEPTH: usize = 120;

/// How many levels of arrays and objects a JSON text nests. One pass over the bytes; a text that is no JSON gives some
/// number, and never fails.
///
/// ```
/// assert_eq!(runwire_frame::json_depth(br#"{"a":[1,"[[["]}"#), 2);
/// ```
pub fn json_depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
