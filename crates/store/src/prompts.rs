//! What each run was asked, as a list shows it and a search finds it.

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

/// Most characters of a prompt that are kept here. All of it is in the run's input.
const MOST: usize = 200;

/// Fewest characters that a search has: the index knows of no fewer.
pub const MIN_SEARCHED: usize = 3;

/// The last thing that a user said in a `RunAgentInput`, on one line and not much of it.
fn prompt_of(input: &Value) -> Option<String> {
    let messages = input.get("messages")?.as_array()?;
    let asked = messages.iter().rev().find(|message| message.get("role").and_then(Value::as_str) == Some("user"))?;
    let mut prompt = String::new();
    let mut add = |text: &str| {
        for word in text.split_whitespace() {
            // Far enough to be cut at a character below, however long the text is.
            if prompt.len() > 4 * MOST {
                return;
            }
            if !prompt.is_empty() {
                prompt.push(' ');
            }
            prompt.extend(word.chars().take(MOST));
        }
    };
    match asked.get("content")? {
        Value::String(text) => add(text),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")?.as_str()).for_each(add),
        _ => return None,
    }
    if let Some((end, _)) = prompt.char_indices().nth(MOST) {
        prompt.truncate(end);
    }
    (!prompt.is_empty()).then_some(prompt)
}

/// Keeps what a new run was asked.
pub(crate) fn insert(conn: &Connection, run: i64, input: &Value) -> rusqlite::Result<()> {
    if let Some(prompt) = prompt_of(input) {
        conn.prepare_cached("INSERT INTO prompts (rowid, prompt) VALUES (?1, ?2)")?.execute((run, prompt))?;
    }
    Ok(())
}

/// What each of these runs was asked, `None` where that is not known.
pub(crate) fn of(conn: &Connection, run_ids: &[String]) -> rusqlite::Result<Vec<Option<String>>> {
    let mut find = conn.prepare_cached(
        "SELECT prompts.prompt FROM runs JOIN prompts ON prompts.rowid = runs.id WHERE runs.run_id = ?1",
    )?;
    run_ids.iter().map(|run_id| find.query_row([run_id], |row| row.get(0)).optional()).collect()
}

/// What finds the prompts that have this text in them, in whatever case: a phrase of the index's own language.
pub(crate) fn phrase(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn prompt(messages: Value) -> Option<String> {
        prompt_of(&json!({ "messages": messages }))
    }

    #[test]
    fn a_prompt_is_the_last_thing_that_a_user_said_on_one_line() {
        let user = |content: Value| json!({ "role": "user", "content": content });
        assert_eq!(prompt(json!([user(json!("first")), user(json!(" a\n b\tc "))])).unwrap(), "a b c");
        assert_eq!(prompt(json!([user(json!("asked")), { "role": "assistant", "content": "said" }])).unwrap(), "asked");
        let parts =
            json!([{ "type": "text", "text": "what" }, { "type": "image" }, { "type": "text", "text": "is it?" }]);
        assert_eq!(prompt(json!([user(parts)])).unwrap(), "what is it?");
        for nothing in
            [json!([]), json!([user(json!(" \n"))]), json!([{ "role": "user" }]), json!([user(json!(7))]), json!("x")]
        {
            assert_eq!(prompt(nothing), None);
        }
        assert_eq!(prompt_of(&json!(null)), None);
    }

    #[test]
    fn a_long_prompt_is_cut_at_a_character() {
        let long = "é".repeat(100_000);
        let cut = prompt(json!([{ "role": "user", "content": long }])).unwrap();
        assert_eq!(cut, "é".repeat(MOST));
        let words = "word ".repeat(100_000);
        assert_eq!(prompt(json!([{ "role": "user", "content": words }])).unwrap().chars().count(), MOST);
    }
}
