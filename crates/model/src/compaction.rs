//! Leaving out the oldest turns of a conversation that has become too long.
//!
//! What goes is whole: a question with everything that came of it, or, within the last question, one round of calls with their
//! results. A call never stands without its result, and the last question always stays.

use crate::call::{MadeCall, ModelRequest, Part, Turn};

/// A token is taken for so many bytes. Models differ; text in Latin letters has some four, other scripts have fewer letters
/// and more bytes to each.
const BYTES_PER_TOKEN: usize = 4;
/// What a part that is no text is taken for.
const MEDIA_TOKENS: usize = 1000;
/// What a turn costs beside its text.
const TURN_TOKENS: usize = 4;

/// What was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compaction {
    /// How many turns.
    pub turns_removed: usize,
    /// How many are left.
    pub turns_kept: usize,
    /// How many tokens the request was taken for.
    pub estimate_before: usize,
    /// How many it is taken for now.
    pub estimate_after: usize,
}

/// How many tokens a request is taken for.
pub(crate) fn estimate(request: &ModelRequest) -> usize {
    let tools = request
        .tools
        .iter()
        .map(|tool| tokens(tool.name.len() + tool.description.len() + tool.parameters.to_string().len()));
    tokens(request.system.len()) + tools.sum::<usize>() + request.turns.iter().map(turn_tokens).sum::<usize>()
}

/// Leaves out the oldest turns until the request is taken for at most `limit` tokens, or nothing more can go. `None` when
/// nothing went.
pub(crate) fn compact(request: &mut ModelRequest, limit: usize) -> Option<Compaction> {
    let before = estimate(request);
    let turns_before = request.turns.len();
    let mut now = before;
    while now > limit {
        let Some(range) = oldest(&request.turns) else { break };
        now -= request.turns[range.clone()].iter().map(turn_tokens).sum::<usize>();
        request.turns.drain(range);
    }
    let turns_removed = turns_before - request.turns.len();
    (turns_removed > 0).then_some(Compaction {
        turns_removed,
        turns_kept: request.turns.len(),
        estimate_before: before,
        estimate_after: now,
    })
}

/// The oldest turns that can go together.
fn oldest(turns: &[Turn]) -> Option<std::ops::Range<usize>> {
    let is_question = |turn: &Turn| matches!(turn, Turn::User(_));
    let first = turns.iter().position(is_question);
    match first {
        // What stands in front of the first question belongs to one that is gone.
        Some(first) if first > 0 => return Some(0..first),
        Some(_) => {
            if let Some(next) = turns.iter().skip(1).position(is_question) {
                return Some(0..next + 1);
            }
        }
        None => {}
    }
    // One question is left. Of what came of it, the newest round stays: it is what the model goes on from.
    let begin = usize::from(first.is_some());
    let rounds: Vec<usize> =
        (begin..turns.len()).filter(|&place| matches!(turns[place], Turn::Assistant { .. })).collect();
    match rounds[..] {
        [oldest, next, ..] => Some(oldest..next),
        _ => None,
    }
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

fn turn_tokens(turn: &Turn) -> usize {
    let content = match turn {
        Turn::User(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => tokens(text.len()),
                Part::Media(_) => MEDIA_TOKENS,
            })
            .sum(),
        Turn::Assistant { text, calls } => {
            let call = |call: &MadeCall| call.name.len() + call.arguments.len();
            tokens(text.len() + calls.iter().map(call).sum::<usize>())
        }
        Turn::Results(results) => tokens(results.iter().map(|result| result.text.len()).sum()),
    };
    content + TURN_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::CallResult;

    fn user(text: &str) -> Turn {
        Turn::User(vec![Part::Text(text.to_owned())])
    }

    fn said(text: &str) -> Turn {
        Turn::Assistant { text: text.to_owned(), calls: Vec::new() }
    }

    fn round(id: &str) -> [Turn; 2] {
        let call = MadeCall { id: id.to_owned(), name: "t".to_owned(), arguments: "x".repeat(400), opaque: None };
        let result = CallResult { id: id.to_owned(), name: "t".to_owned(), ok: true, text: "y".repeat(400) };
        [Turn::Assistant { text: String::new(), calls: vec![call] }, Turn::Results(vec![result])]
    }

    fn request(turns: Vec<Turn>) -> ModelRequest {
        ModelRequest { turns, ..ModelRequest::default() }
    }

    #[test]
    fn the_oldest_question_goes_with_all_that_came_of_it() {
        let [call, result] = round("a");
        let mut it =
            request(vec![user("one"), call, result, said("first"), user("two"), said("second"), user("three")]);
        let compaction = compact(&mut it, 40).expect("it is longer than that");
        assert_eq!(it.turns, [user("two"), said("second"), user("three")]);
        assert_eq!((compaction.turns_removed, compaction.turns_kept), (4, 3));
        assert_eq!(compaction.estimate_after, estimate(&it));
        assert!(compaction.estimate_before > 200);
    }

    #[test]
    fn within_the_last_question_rounds_go_with_their_results_and_the_question_and_the_newest_round_stay() {
        let turns: Vec<Turn> =
            [vec![user("one")], round("a").to_vec(), round("b").to_vec(), round("c").to_vec()].concat();
        let mut it = request(turns);
        assert!(compact(&mut it, 1).is_some());
        assert_eq!(it.turns, [vec![user("one")], round("c").to_vec()].concat());
        assert_eq!(compact(&mut it, 1), None, "nothing more can go");
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let mut it = request(vec![user("one"), said("first"), user("two")]);
        let before = it.clone();
        assert_eq!(compact(&mut it, estimate(&before)), None);
        assert_eq!(it, before);
    }
}
