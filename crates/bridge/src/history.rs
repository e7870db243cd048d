//! What a client holds of a session: the fold of the AG-UI events of its runs, one run after the other.
//!
//! A run tells of itself. Where it restates the conversation (MESSAGES_SNAPSHOT), it restates what it was given, and a
//! client that sends only what is new gives it little. So a restatement counts for what the run was given and for what it
//! made; everything else of the session stays.

mod given;

use std::collections::HashSet;

use runwire_agui::{Event, Interrupt, Message, Reducer, RunAgentInput, RunStarted, StateSnapshot};
use runwire_frame::{Data, Frame};
use serde_json::Value;

/// The messages and the state of a session, and what of it waits for an answer.
#[derive(Clone, Debug, Default)]
pub struct History {
    reducer: Reducer,
    /// Suspended runs, in order of creation.
    pending: Vec<WaitingRun>,
    /// The messages that no agent is given again, by their ids.
    withheld: HashSet<String>,
}

/// A run that waits for an answer.
#[derive(Clone, Debug)]
pub struct WaitingRun {
    /// The run.
    pub run_id: String,
    /// Its agent.
    pub agent_id: String,
    /// What it asked.
    pub interrupts: Vec<Interrupt>,
}

/// What stands around an exchange in its session, and what its own restatements do not tell.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Messages that the session had and the exchange's input had not.
    others: Vec<Message>,
    /// The messages that both had, by their ids.
    again: HashSet<String>,
    /// The state that the exchange began with.
    state: Value,
}

impl History {
    /// Takes the beginning of an exchange: a message of its input counts once, by its id, and a state that says something
    /// is the state from here on. An empty one says nothing, because a client that knows of none sends it too.
    ///
    /// `asked` is the input, where the agent's echo says something else: what the agent added in its echo counts too. What
    /// [`History::given`] put into an input in place of a result does not.
    pub fn begin(&mut self, started: &RunStarted, asked: Option<RunAgentInput>) -> Surroundings {
        if let Some(asked) = asked {
            let asked = RunStarted { input: Some(Box::new(asked)), ..started.clone() };
            let surroundings = self.begin(&asked, None);
            self.apply(without_stand_ins(started).into());
            return surroundings;
        }
        let input = started.input.as_deref();
        let given: HashSet<&str> = input.iter().flat_map(|i| &i.messages).map(Message::id).collect();
        let (mut others, mut again) = (Vec::new(), HashSet::new());
        for message in self.reducer.messages() {
            if given.contains(message.id()) {
                again.insert(message.id().to_owned());
            } else {
                others.push(message.clone());
            }
        }
        self.apply(without_stand_ins(started).into());
        if let Some(state) = input.and_then(|input| input.state.as_ref())
            && says_something(state)
        {
            self.apply(StateSnapshot::new(state.clone()).into());
        }
        Surroundings { others, again, state: self.state().clone() }
    }

    /// Takes an event of an exchange that has begun, as [`Surroundings::complete`] gives it.
    pub fn apply(&mut self, event: Event) {
        // What does not apply, does not for any client. The event's place is of no interest, so neither is the warning.
        let _ = self.reducer.apply(event, 0);
    }

    /// The messages, in order.
    pub fn messages(&self) -> Vec<Message> {
        self.reducer.messages().cloned().collect()
    }

    /// The messages as an agent is given them that is asked something new in the session: each call of a tool with a result,
    /// which says that nobody answered where nobody did; without activities, and without what is withheld.
    pub fn given(&self) -> Vec<Message> {
        given::given(self.reducer.messages(), &self.withheld)
    }

    /// Keeps what an exchange was asked beyond what was known, and what it said, from every agent that is asked something
    /// new. It stays in the session.
    ///
    /// For one that ended because a guardrail or a provider would not have it: else it would only have to be asked twice.
    pub fn withhold(&mut self, exchange: &Surroundings) {
        let known: HashSet<&str> =
            exchange.others.iter().map(Message::id).chain(exchange.again.iter().map(String::as_str)).collect();
        let new = self.reducer.messages().map(Message::id).filter(|id| !known.contains(id));
        self.withheld.extend(new.map(str::to_owned));
    }

    /// The state; the empty object where nobody said one.
    pub fn state(&self) -> &Value {
        self.reducer.state()
    }

    /// How large it is, in bytes of JSON.
    pub fn size(&self) -> usize {
        let mut counted = Counted(0);
        for message in self.reducer.messages() {
            // Counting takes everything that it is given.
            let _ = serde_json::to_writer(&mut counted, message);
        }
        let _ = serde_json::to_writer(&mut counted, self.state());
        for pending in &self.pending {
            // Twice: the reducer holds those of the last run too.
            for _ in 0..2 {
                let _ = serde_json::to_writer(&mut counted, &pending.interrupts);
            }
            counted.0 += pending.run_id.len() + pending.agent_id.len();
        }
        counted.0 += self.withheld.iter().map(String::len).sum::<usize>();
        counted.0
    }

    /// What the last exchange asked for, if it ended by asking.
    pub fn interrupts(&self) -> &[Interrupt] {
        self.reducer.interrupts()
    }

    /// Takes a run whose last exchange ended by asking.
    pub fn wait_for(&mut self, waiting: WaitingRun) {
        self.pending.push(waiting);
    }

    /// The runs that wait for an answer, in order of creation.
    pub fn pending(&self) -> &[WaitingRun] {
        &self.pending
    }

    /// The run that an answer sent to this agent goes to: its newest that waits.
    pub fn answerable(&self, agent_id: &str) -> Option<&WaitingRun> {
        self.pending.iter().rev().find(|pending| pending.agent_id == agent_id)
    }
}

impl Surroundings {
    /// The exchange's event as it is for whoever knows the whole session.
    pub fn complete(&self, frame: &Frame, event: Event) -> Event {
        match event {
            Event::MessagesSnapshot(mut snapshot) => {
                snapshot.messages.retain(|message| !given::is_stand_in(message));
                let restated: HashSet<&str> = snapshot.messages.iter().map(Message::id).collect();
                let mut messages: Vec<Message> =
                    self.others.iter().filter(|message| !restated.contains(message.id())).cloned().collect();
                messages.append(&mut snapshot.messages);
                snapshot.messages = messages;
                snapshot.into()
            }
            // A further attempt restates the state of its input, which may have said nothing.
            Event::StateSnapshot(mut snapshot) if matches!(frame.data, Data::RunStart(_)) => {
                snapshot.snapshot = self.state.clone();
                snapshot.into()
            }
            event => event,
        }
    }
}

/// Counts what is written to it.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What begins an exchange, without what stands in its input in place of results.
fn without_stand_ins(started: &RunStarted) -> RunStarted {
    let mut started = started.clone();
    if let Some(input) = &mut started.input {
        input.messages.retain(|message| !given::is_stand_in(message));
    }
    started
}

fn says_something(state: &Value) -> bool {
    state.as_object().is_none_or(|members| !members.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use runwire_agui::MessagesSnapshot;
    use runwire_frame::{Notice, NoticeLevel, RunStart, Timestamp};
    use serde_json::{Map, json};

    use super::*;

    fn started(state: Value, ids: &[&str]) -> RunStarted {
        let messages: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "role": "user", "content": id })).collect();
        let input = json!({ "threadId": "t", "runId": "r", "state": state, "messages": messages });
        let event = json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": input });
        match Event::from_value(event).unwrap() {
            Event::RunStarted(started) => started,
            other => panic!("{other:?}"),
        }
    }

    fn snapshot(ids: &[&str]) -> Event {
        let messages: Vec<Value> = ids.iter().map(|id| json!({ "id": id, "role": "user", "content": id })).collect();
        Event::from_value(json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages })).unwrap()
    }

    fn frame(data: Data) -> Frame {
        Frame { seq: 1, run_id: "run".into(), ts: Timestamp::from_unix_millis(0), segment_id: None, data }
    }

    fn notice() -> Frame {
        let notice = Notice {
            level: NoticeLevel::Info,
            code: "agui.MESSAGES_SNAPSHOT".into(),
            message: String::new(),
            attributes: None,
            extra: Map::new(),
        };
        frame(Data::Notice(notice))
    }

    fn ids(history: &History) -> Vec<String> {
        history.messages().iter().map(|message| message.id().to_owned()).collect()
    }

    #[test]
    fn a_message_of_several_inputs_counts_once() {
        let mut history = History::default();
        history.begin(&started(json!({}), &["a"]), None);
        history.begin(&started(json!({}), &["a", "b"]), None);
        history.begin(&started(json!({}), &["c"]), None);
        assert_eq!(ids(&history), ["a", "b", "c"]);
    }

    #[test]
    fn what_was_asked_counts_also_where_the_agent_echoes_something_else() {
        let asked = started(json!({ "n": 1 }), &["a", "b"]).input.map(|input| *input);
        let mut history = History::default();
        history.begin(&started(json!({}), &["b", "added"]), asked);
        assert_eq!(ids(&history), ["a", "b", "added"]);
        assert_eq!(history.state(), &json!({ "n": 1 }));
    }

    #[test]
    fn a_restatement_takes_away_what_the_run_was_given_and_nothing_else() {
        let mut history = History::default();
        history.begin(&started(json!({}), &["earlier", "kept", "dropped"]), None);
        let around = history.begin(&started(json!({}), &["kept", "dropped", "asked"]), None);
        history.apply(around.complete(&notice(), snapshot(&["kept", "asked", "new"])));
        assert_eq!(ids(&history), ["earlier", "kept", "asked", "new"]);
    }

    #[test]
    fn an_input_without_state_leaves_the_state_and_another_attempt_restates_it() {
        let mut history = History::default();
        history.begin(&started(json!({ "n": 1 }), &["a"]), None);
        let around = history.begin(&started(json!({}), &["b"]), None);
        assert_eq!(history.state(), &json!({ "n": 1 }));
        let attempt = RunStart {
            agent_id: "a".into(),
            agent_revision_id: None,
            session_id: None,
            lane: None,
            trigger_kind: None,
            attempt: 2,
            extra: Map::new(),
        };
        let restated = around.complete(&frame(Data::RunStart(attempt)), StateSnapshot::new(json!({})).into());
        assert_eq!(restated, StateSnapshot::new(json!({ "n": 1 })).into());
        history.begin(&started(json!([0]), &[]), None);
        assert_eq!(history.state(), &json!([0]));
    }

    fn called(id: &str, call: &str) -> Event {
        let call = json!([{ "id": call, "type": "function", "function": { "name": "look", "arguments": "{}" } }]);
        let message = json!({ "id": id, "role": "assistant", "toolCalls": call });
        Event::from_value(json!({ "type": "MESSAGES_SNAPSHOT", "messages": [message] })).unwrap()
    }

    #[test]
    fn what_was_given_in_place_of_a_result_never_counts_as_said() {
        let mut history = History::default();
        let around = history.begin(&started(json!({}), &["a"]), None);
        history.apply(around.complete(&notice(), called("m", "c")));
        let given = history.given();
        assert_eq!(given.last().unwrap().id(), "c.unanswered");
        // The next exchange has it in its input, its agent echoes it, and restates it.
        let mut next = started(json!({}), &["b"]);
        next.input.as_mut().unwrap().messages.splice(0..0, given.clone());
        let asked = next.input.clone().map(|input| *input);
        for asked in [None, asked] {
            let around = history.begin(&next, asked);
            history.apply(around.complete(&notice(), MessagesSnapshot::new(given.clone()).into()));
            assert!(history.messages().iter().all(|message| message.id() != "c.unanswered"), "{:?}", ids(&history));
        }
        assert!(history.messages().iter().any(|message| message.id() == "m"), "what it stood for is there");
    }

    #[test]
    fn what_is_withheld_is_what_was_new_in_the_exchange_and_it_stays_in_the_session() {
        let mut history = History::default();
        history.begin(&started(json!({}), &["a", "b"]), None);
        let around = history.begin(&started(json!({}), &["b", "bad"]), None);
        history.apply(around.complete(&notice(), snapshot(&["b", "bad", "answer"])));
        let before = history.size();
        history.withhold(&around);
        assert!(history.size() > before, "it takes room");
        history.begin(&started(json!({}), &["a", "b", "bad", "answer", "c"]), None);
        let given = history.given();
        assert_eq!(given.iter().map(Message::id).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(ids(&history), ["a", "b", "bad", "answer", "c"]);
    }
}
