//! What of a session an agent is given that is asked something new in it.
//!
//! The server is the client here, and owes the agent what AG-UI has a client owe: no activities, and a result for each call
//! of a tool ("a thread that continues MUST answer every one of them first", events/tool-calls, "Frontend tools"). A call
//! that nobody answered, and one that still waits, has a result that says so. It stands in what is given, and never counts
//! as something that the session said: when the answer comes it is the only one.

use std::collections::HashSet;

use runwire_agui::{Content, Message, ToolCall, ToolMessage};

/// What an agent is told of a call without a result.
const UNANSWERED: &str = "There is no result of this call: nobody had answered it when the conversation went on.";

/// How the id of such a message ends; it begins with the call's.
const SUFFIX: &str = ".unanswered";

/// Whether the message says in place of a result that there is none.
pub(super) fn is_stand_in(message: &Message) -> bool {
    match message {
        Message::Tool(tool) => tool.id.strip_suffix(SUFFIX) == Some(&tool.tool_call_id),
        _ => false,
    }
}

/// The messages, without those that are withheld and without activities, each call with a result behind it.
pub(super) fn given<'a>(messages: impl Iterator<Item = &'a Message>, withheld: &HashSet<String>) -> Vec<Message> {
    let mut calls_withheld: HashSet<&str> = HashSet::new();
    let mut answered: HashSet<&str> = HashSet::new();
    let mut left: Vec<&Message> = Vec::new();
    for message in messages {
        match message {
            _ if withheld.contains(message.id()) => {
                calls_withheld.extend(message.tool_calls().iter().map(|call| call.id.as_str()));
            }
            Message::Activity(_) => {}
            // A result without its call is nothing that a model could be given.
            Message::Tool(tool) if calls_withheld.contains(&*tool.tool_call_id) => {}
            Message::Tool(tool) => {
                answered.insert(&tool.tool_call_id);
                left.push(message);
            }
            message => left.push(message),
        }
    }
    let mut given = Vec::with_capacity(left.len());
    let mut stand_ins = Vec::new();
    for message in left {
        // Behind the message that made the call, and the answers that are there already: where AG-UI puts an answer.
        if !matches!(message, Message::Tool(_)) {
            given.append(&mut stand_ins);
        }
        given.push(message.clone());
        for call in message.tool_calls() {
            // Once: the same call may stand in two messages.
            if answered.insert(&call.id) {
                stand_ins.push(stand_in(call, message));
            }
        }
    }
    given.append(&mut stand_ins);
    given
}

fn stand_in(call: &ToolCall, of: &Message) -> Message {
    let mut message =
        ToolMessage::new(format!("{}{SUFFIX}", call.id), Content::Text(UNANSWERED.to_owned()), call.id.clone());
    message.error = Some("not answered".to_owned());
    message.subagent_run_id = of.subagent_run_id().map(str::to_owned);
    Message::Tool(message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn messages(given: Value) -> Vec<Message> {
        let input = json!({ "threadId": "t", "runId": "r", "messages": given });
        runwire_agui::RunAgentInput::decode_value(input).unwrap().0.messages
    }

    fn said(id: &str) -> Value {
        json!({ "id": id, "role": "user", "content": id })
    }

    fn calls(id: &str, calls: &[&str]) -> Value {
        let function = json!({ "name": "look", "arguments": "{}" });
        let calls: Vec<Value> =
            calls.iter().map(|id| json!({ "id": id, "type": "function", "function": function })).collect();
        json!({ "id": id, "role": "assistant", "toolCalls": calls })
    }

    fn result(id: &str, call: &str) -> Value {
        json!({ "id": id, "role": "tool", "content": "found", "toolCallId": call })
    }

    fn ids(given: &[Message]) -> Vec<&str> {
        given.iter().map(Message::id).collect()
    }

    fn all_given(history: Value) -> Vec<Message> {
        given(messages(history).iter(), &HashSet::new())
    }

    #[test]
    fn a_call_that_nobody_answered_has_a_result_that_says_so_behind_the_message_that_made_it() {
        let history = json!([
            said("q1"),
            calls("m1", &["c1", "c2"]),
            result("r1", "c1"),
            calls("m2", &["c3"]),
            { "id": "m3", "role": "assistant", "content": "Well." },
            said("q2"),
            calls("m4", &["c4"]),
        ]);
        let given = all_given(history);
        assert_eq!(
            ids(&given),
            ["q1", "m1", "r1", "c2.unanswered", "m2", "c3.unanswered", "m3", "q2", "m4", "c4.unanswered"]
        );
        let Message::Tool(stand_in) = &given[3] else { panic!("it is a tool's") };
        assert_eq!((stand_in.tool_call_id.as_str(), stand_in.error.as_deref()), ("c2", Some("not answered")));
        assert!(stand_in.content.text().contains("nobody had answered it"));
        assert!(given.iter().all(|message| is_stand_in(message) == message.id().ends_with(".unanswered")));
    }

    #[test]
    fn a_call_in_two_messages_has_one_result_and_one_of_a_subagent_belongs_to_it() {
        let mut of_subagent = calls("m2", &["c2"]);
        of_subagent["subagentRunId"] = "s".into();
        let given = all_given(json!([said("q"), calls("m1", &["c1"]), calls("m1b", &["c1"]), of_subagent]));
        assert_eq!(ids(&given), ["q", "m1", "c1.unanswered", "m1b", "m2", "c2.unanswered"]);
        assert_eq!(
            given.iter().map(Message::subagent_run_id).collect::<Vec<_>>()[2..],
            [None, None, Some("s"), Some("s")]
        );
    }

    #[test]
    fn activities_and_what_is_withheld_are_not_given_nor_results_of_what_is_not_there() {
        let activity = json!({ "id": "a", "role": "activity", "activityType": "plan", "content": {} });
        let history =
            json!([said("q1"), activity, said("bad"), calls("m1", &["c1"]), said("q2"), result("late", "c1")]);
        let withheld = HashSet::from(["bad".to_owned(), "m1".to_owned()]);
        assert_eq!(ids(&given(messages(history).iter(), &withheld)), ["q1", "q2"]);
    }

    /// A conversation in which anything may stand anywhere: a few ids, so that calls repeat, and results come early, late, twice
    /// or never.
    fn anything() -> impl Strategy<Value = Value> {
        let call = || (0u8..6).prop_map(|n| format!("c{n}"));
        let message = prop_oneof![
            Just(json!({ "role": "user", "content": "?" })),
            Just(json!({ "role": "assistant", "content": "!" })),
            Just(json!({ "role": "reasoning", "content": "hm" })),
            Just(json!({ "role": "activity", "activityType": "plan", "content": {} })),
            proptest::collection::vec(call(), 1..3).prop_map(|made| {
                let made: Vec<&str> = made.iter().map(String::as_str).collect();
                calls("", &made)
            }),
            call().prop_map(|call| result("", &call)),
        ];
        proptest::collection::vec(message, 0..20).prop_map(|mut messages| {
            for (n, message) in messages.iter_mut().enumerate() {
                message["id"] = format!("m{n}").into();
            }
            messages.into()
        })
    }

    proptest! {
        #[test]
        fn whatever_was_said_each_call_has_a_result_and_nothing_is_lost_but_what_is_withheld(
            history in anything(),
            withheld in proptest::collection::hash_set((0u8..20).prop_map(|n| format!("m{n}")), 0..4),
        ) {
            let history = messages(history);
            let given = given(history.iter(), &withheld);
            let results = |call: &str, all: &[Message]| {
                all.iter().filter(|m| matches!(m, Message::Tool(tool) if tool.tool_call_id == call)).count()
            };
            for call in given.iter().flat_map(Message::tool_calls) {
                let made: Vec<&Message> = given.iter().filter(|m| results(&call.id, std::slice::from_ref(m)) > 0).collect();
                let stand_ins = made.iter().filter(|m| is_stand_in(m)).count();
                prop_assert!(!made.is_empty() && stand_ins <= 1 && (stand_ins == 0 || made.len() == 1), "{}", call.id);
            }
            let said: Vec<&Message> = given.iter().filter(|message| !is_stand_in(message)).collect();
            let kept: Vec<&Message> = history
                .iter()
                .filter(|m| !withheld.contains(m.id()) && !matches!(m, Message::Activity(_)) && said.contains(m))
                .collect();
            prop_assert_eq!(&said, &kept, "in order");
            // What is missing beside that are results of calls that are withheld.
            let withheld_calls: HashSet<&str> = history
                .iter()
                .filter(|m| withheld.contains(m.id()))
                .flat_map(|m| m.tool_calls())
                .map(|call| call.id.as_str())
                .collect();
            for message in history.iter().filter(|m| !withheld.contains(m.id()) && !said.contains(m)) {
                let of_withheld =
                    matches!(message, Message::Tool(tool) if withheld_calls.contains(&*tool.tool_call_id));
                prop_assert!(of_withheld || matches!(message, Message::Activity(_)), "{}", message.id());
            }
            prop_assert_eq!(super::given(given.iter(), &HashSet::new()), given, "given once more it is the same");
        }
    }

    #[test]
    fn an_answer_under_an_id_of_its_own_is_no_stand_in() {
        for id in ["c1", "unanswered", "c2.unanswered", "c1.unanswered.again"] {
            assert!(!is_stand_in(&messages(json!([result(id, "c1")]))[0]), "{id}");
        }
    }
}
