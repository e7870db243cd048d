//! The walk: which event comes next, of those that may.

mod items;

use serde_json::{Value, json};

use super::{Dice, RUN, Step, THREAD};

type Owner = Option<String>;

/// A message that the stream has made, and is not a tool's answer.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    role: &'static str,
    name: Option<&'static str>,
    owner: Owner,
}

/// A tool call that the stream has made.
#[derive(Clone, Debug)]
struct Call {
    id: String,
    name: &'static str,
    parent: Option<String>,
    owner: Owner,
    run: usize,
    answered: bool,
}

/// What a walk has behind it, and what of it is open.
pub struct Course {
    dice: Dice,
    steps: Vec<Step>,
    minted: usize,
    run: usize,
    run_id: String,
    known: Vec<Known>,
    calls: Vec<Call>,
    activities: Vec<(String, Owner)>,
    open_texts: Vec<(String, Owner)>,
    open_calls: Vec<(String, Owner)>,
    open_reasoning: Vec<(String, Owner)>,
    open_spans: Vec<(String, Owner)>,
    open_steps: Vec<(String, Owner)>,
    agents: Vec<String>,
    announced: Vec<String>,
    /// Messages of this run, which alone have an owner on record.
    first_of_run: usize,
}

const WORDS: [&str; 6] = ["Hello", " there", "", "ü", "🙂", "\n\n{}"];
const NAMES: [&str; 3] = ["search", "draw", "ask"];

impl Course {
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            steps: Vec::new(),
            minted: 0,
            run: 0,
            run_id: String::new(),
            known: Vec::new(),
            calls: Vec::new(),
            activities: Vec::new(),
            open_texts: Vec::new(),
            open_calls: Vec::new(),
            open_reasoning: Vec::new(),
            open_spans: Vec::new(),
            open_steps: Vec::new(),
            agents: Vec::new(),
            announced: Vec::new(),
            first_of_run: 0,
        }
    }

    pub fn walk(mut self) -> Vec<Step> {
        if self.dice.once_in(40) {
            self.say(json!({"type": "RUN_ERROR", "message": "It never began.", "code": "EARLY"}));
            return self.steps;
        }
        loop {
            self.run();
            if !self.dice.once_in(4) {
                return self.steps;
            }
        }
    }

    fn run(&mut self) {
        self.run += 1;
        self.run_id = if self.run == 1 { RUN.to_owned() } else { format!("run-{}", self.run) };
        self.agents.clear();
        self.announced.clear();
        self.activities.clear();
        self.first_of_run = self.known.len();
        let mut started = json!({"type": "RUN_STARTED", "threadId": THREAD, "runId": self.run_id});
        if self.dice.once_in(2) {
            started["protocolVersion"] = json!("1.0");
        }
        if self.dice.once_in(6) {
            started["parentRunId"] = json!("parent");
        }
        if self.dice.once_in(5) {
            let mut input = super::input();
            input["runId"] = json!(self.run_id);
            if self.dice.once_in(2) {
                let id = self.mint("m");
                let messages = input["messages"].as_array_mut().unwrap();
                messages.push(json!({"id": id, "role": "user", "content": [{"type": "text", "text": "More"}]}));
            }
            started["input"] = input;
        }
        self.say(started);
        for _ in 0..self.dice.below(16) {
            self.turn();
        }
        if self.dice.once_in(8) {
            self.fail();
            return;
        }
        self.close_everything();
        self.finish();
        if self.dice.once_in(12) {
            self.fail();
        }
    }

    fn turn(&mut self) {
        match self.dice.below(30) {
            0 | 1 => self.open_text(),
            2 | 3 => self.continue_text(),
            4 => self.close_text(),
            5 | 6 => self.open_call(),
            7 | 8 => self.continue_call(),
            9 => self.close_call(),
            10 | 11 => self.answer(),
            12 => self.open_reasoning(),
            13 => self.continue_reasoning(),
            14 => self.span(),
            15 => self.encrypted_value(),
            16 | 17 => self.step(),
            18 | 19 => self.subagent(),
            20 => self.state(),
            21 => self.patch_state(),
            22 => self.activity(),
            23 => self.patch_activity(),
            24 => self.snapshot(),
            25 => {
                let event = self.aside();
                self.say(event);
            }
            26 => {
                let event = json!({"type": "CUSTOM", "name": "org.example.seen", "value": {"a": [null, 1.5, "x"]}});
                let owner = self.owner();
                self.tell(event, &owner);
            }
            _ => self.item(),
        }
    }

    fn say(&mut self, mut event: Value) {
        if self.dice.once_in(10) {
            event["timestamp"] = json!(1_700_000_000_000_i64 + i64::try_from(self.steps.len()).unwrap());
        }
        if self.dice.once_in(12) {
            event["rawEvent"] = json!({"provider": {"nested": null}});
        }
        if self.dice.once_in(8) {
            event["metadata"] = self.metadata();
        }
        self.steps.push(Step::Event(event));
    }

    /// Says it for an owner.
    fn tell(&mut self, mut event: Value, owner: &Owner) {
        if let Some(owner) = owner {
            event["subagentRunId"] = json!(owner);
        }
        self.say(event);
    }

    /// Says what continues something: with its owner's tag, or without any.
    fn go_on(&mut self, event: Value, owner: &Owner) {
        let tagged = self.dice.once_in(2);
        self.tell(event, if tagged { owner } else { &None });
    }

    fn metadata(&mut self) -> Value {
        let key = *self.dice.pick(&["model", "cost", "tags"]);
        json!({ key: {"at": self.steps.len()}, "none": null })
    }

    fn mint(&mut self, kind: &str) -> String {
        self.minted += 1;
        format!("{kind}{}", self.minted)
    }

    fn word(&mut self) -> String {
        (*self.dice.pick(&WORDS)).to_owned()
    }

    /// The parent agent mostly, else a subagent that is active, else one that nobody announced.
    fn owner(&mut self) -> Owner {
        if self.dice.once_in(20) {
            return Some("unannounced".to_owned());
        }
        if !self.agents.is_empty() && self.dice.once_in(2) {
            return Some(self.dice.pick(&self.agents).clone());
        }
        None
    }

    fn step(&mut self) {
        if self.open_steps.is_empty() || self.dice.once_in(2) {
            let step = ((*self.dice.pick(&["plan", "act"])).to_owned(), self.owner());
            if !self.open_steps.contains(&step) {
                self.open_steps.push(step.clone());
                self.tell(json!({"type": "STEP_STARTED", "stepName": step.0}), &step.1);
            }
        } else {
            let (name, owner) = self.open_steps.swap_remove(self.dice.below(self.open_steps.len()));
            self.tell(json!({"type": "STEP_FINISHED", "stepName": name}), &owner);
        }
    }

    fn subagent(&mut self) {
        if !self.agents.is_empty() && self.dice.once_in(2) {
            let id = self.dice.pick(&self.agents).clone();
            return self.end_subagent(&id);
        }
        let id = self.mint("a");
        let mut event = json!({"type": "SUBAGENT_STARTED", "subagentRunId": id, "name": "researcher"});
        if !self.announced.is_empty() && self.dice.once_in(2) {
            event["parentSubagentRunId"] = json!(self.dice.pick(&self.announced));
        }
        if self.dice.once_in(3) {
            event["description"] = json!("Looks things up");
        }
        if let (true, Some(call)) = (self.dice.once_in(3), self.calls.last()) {
            event["parentToolCallId"] = json!(call.id);
            event["parentMessageId"] = json!(call.parent.clone().unwrap_or_else(|| call.id.clone()));
        }
        self.agents.push(id.clone());
        self.announced.push(id);
        self.say(event);
    }

    fn end_subagent(&mut self, id: &str) {
        self.close_what(&Some(id.to_owned()));
        self.agents.retain(|agent| agent != id);
        let mut event = json!({"type": "SUBAGENT_FINISHED", "subagentRunId": id});
        match self.dice.below(6) {
            0 => event = json!({"type": "SUBAGENT_ERROR", "subagentRunId": id, "message": "It broke."}),
            1 => event["result"] = json!({"found": [1, null]}),
            2 => event["outcome"] = json!({"type": "success"}),
            3 => event["outcome"] = json!({"type": "suspended", "interruptIds": ["i1"]}),
            4 => event["outcome"] = json!({"type": "suspended"}),
            _ => {}
        }
        self.say(event);
    }

    fn state(&mut self) {
        let snapshot = match self.dice.below(8) {
            0 => Value::Null,
            1 => json!(0),
            2 => json!([]),
            _ => json!({"n": self.steps.len(), "list": [], "deep": {"a~/b": null}}),
        };
        let owner = self.owner();
        self.tell(json!({"type": "STATE_SNAPSHOT", "snapshot": snapshot}), &owner);
    }

    /// Patches that apply to a state as above, and one in so many that does not.
    fn operations(&mut self) -> Value {
        json!(match self.dice.below(8) {
            0 => vec![json!({"op": "add", "path": "/list/-", "value": {"x": 1}})],
            1 => vec![json!({"op": "add", "path": "/new", "value": null}), json!({"op": "remove", "path": "/new"})],
            2 => vec![json!({"op": "replace", "path": "/n", "value": 5, "comment": "kept"})],
            3 => vec![
                json!({"op": "copy", "from": "/n", "path": "/m"}),
                json!({"op": "move", "from": "/m", "path": "/k"})
            ],
            4 => vec![json!({"op": "add", "path": "/a~1b~0c", "value": [1]})],
            5 => vec![json!({"op": "add", "path": "/first", "value": 1}), json!({"op": "remove", "path": "/absent/x"})],
            6 => vec![json!({"op": "test", "path": "/list", "value": "another"})],
            _ => vec![],
        })
    }

    fn patch_state(&mut self) {
        let (delta, owner) = (self.operations(), self.owner());
        self.tell(json!({"type": "STATE_DELTA", "delta": delta}), &owner);
    }

    fn activity(&mut self) {
        let event = self.activity_snapshot();
        self.say(event);
    }

    fn activity_snapshot(&mut self) -> Value {
        let again = !self.activities.is_empty() && self.dice.once_in(2);
        let (id, owner) = if again { self.dice.pick(&self.activities).clone() } else { (self.mint("v"), self.owner()) };
        if !again {
            self.activities.push((id.clone(), owner.clone()));
        }
        let kind = *self.dice.pick(&["search", "checklist"]);
        let content = json!({"n": self.steps.len(), "list": []});
        let mut event = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": kind, "content": content});
        match self.dice.below(4) {
            0 => event["replace"] = json!(false),
            1 => event["replace"] = json!(true),
            _ => {}
        }
        if let Some(owner) = owner {
            event["subagentRunId"] = json!(owner);
        }
        event
    }

    fn patch_activity(&mut self) {
        let (id, owner) = match self.dice.below(6) {
            0 => ("asked".to_owned(), None),
            1 => ("nobody".to_owned(), None),
            _ if self.activities.is_empty() => return self.activity(),
            _ => self.dice.pick(&self.activities).clone(),
        };
        let patch = self.operations();
        let kind = *self.dice.pick(&["search", "checklist"]);
        self.go_on(json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": kind, "patch": patch}), &owner);
    }

    /// Restates some of the conversation.
    fn snapshot(&mut self) {
        let mut messages = Vec::new();
        if self.dice.once_in(2) {
            messages.push(json!({"id": "asked", "role": "user", "content": "Hello"}));
        }
        for known in self.known.clone() {
            if self.dice.once_in(3) {
                continue;
            }
            let mut message = json!({"id": known.id, "role": known.role, "content": "Restated"});
            if let (Some(owner), true) = (&known.owner, self.known_in_run(&known.id)) {
                message["subagentRunId"] = json!(owner);
            }
            if let Some(name) = known.name {
                message["name"] = json!(name);
            }
            messages.push(message);
        }
        for call in self.calls.clone() {
            if call.parent.is_none() && self.dice.once_in(2) {
                let mut message = json!({"id": call.id, "role": "assistant", "toolCalls": [
                    {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "{}"}}]});
                if let (Some(owner), true) = (&call.owner, call.run == self.run) {
                    message["subagentRunId"] = json!(owner);
                }
                messages.push(message);
            }
        }
        match self.dice.below(8) {
            0 => messages.push(json!({"id": "old", "role": "activity", "activityType": "old", "content": {"n": 1}})),
            1 => {
                messages.push(json!({"id": "thought", "role": "reasoning", "content": "Hm", "encryptedValue": "eA=="}))
            }
            2 => messages.push(json!({"id": "result", "role": "tool", "toolCallId": "elsewhere", "content": "",
                                      "error": "It broke."})),
            3 => messages.push(json!({"id": "spoken", "role": "assistant", "name": "Bo", "metadata": {"a": null}})),
            _ => {}
        }
        self.say(json!({"type": "MESSAGES_SNAPSHOT", "messages": messages}));
    }

    fn known_in_run(&self, id: &str) -> bool {
        self.known[self.first_of_run..].iter().any(|known| known.id == id)
    }

    /// An event that closes nothing that chunks assemble.
    fn aside(&mut self) -> Value {
        match self.dice.below(3) {
            0 => json!({"type": "RAW", "event": null}),
            1 => json!({"type": "RAW", "event": {"type": "RUN_FINISHED"}, "source": "elsewhere"}),
            _ => self.activity_snapshot(),
        }
    }

    fn fail(&mut self) {
        let mut event = json!({"type": "RUN_ERROR", "message": "It broke."});
        if self.dice.once_in(2) {
            event["code"] = json!("BROKEN");
        }
        if self.dice.once_in(3) {
            event["usage"] = json!([{"provider": "openai", "inputTokens": 3}]);
        }
        self.forget_what_is_open();
        self.say(event);
    }

    fn forget_what_is_open(&mut self) {
        for open in [
            &mut self.open_texts,
            &mut self.open_calls,
            &mut self.open_reasoning,
            &mut self.open_spans,
            &mut self.open_steps,
        ] {
            open.clear();
        }
    }

    /// Closes all that an owner has open.
    fn close_what(&mut self, owner: &Owner) {
        let mut events = Vec::new();
        for (open, event_type, member) in [
            (&mut self.open_texts, "TEXT_MESSAGE_END", "messageId"),
            (&mut self.open_calls, "TOOL_CALL_END", "toolCallId"),
            (&mut self.open_reasoning, "REASONING_MESSAGE_END", "messageId"),
            (&mut self.open_spans, "REASONING_END", "messageId"),
            (&mut self.open_steps, "STEP_FINISHED", "stepName"),
        ] {
            open.retain(|(id, of)| {
                if of == owner {
                    events.push(json!({"type": event_type, member: id}));
                }
                of != owner
            });
        }
        while !events.is_empty() {
            let event = events.swap_remove(self.dice.below(events.len()));
            self.tell(event, owner);
        }
    }

    fn close_everything(&mut self) {
        while !self.agents.is_empty() {
            let id = self.dice.pick(&self.agents).clone();
            self.end_subagent(&id);
        }
        self.close_what(&Some("unannounced".to_owned()));
        self.close_what(&None);
    }

    fn finish(&mut self) {
        let mut event = json!({"type": "RUN_FINISHED", "threadId": THREAD, "runId": self.run_id});
        let pending: Vec<&str> = self
            .calls
            .iter()
            .filter(|call| call.run == self.run && !call.answered)
            .map(|call| call.id.as_str())
            .collect();
        match self.dice.below(7) {
            0 => event["outcome"] = json!({"type": "success"}),
            1 | 2 => event["outcome"] = json!({"type": "success", "pendingToolCallIds": pending}),
            3 => event["outcome"] = json!({"type": "cancelled"}),
            4 => {
                let mut interrupts = vec![json!({"id": "i1", "reason": "approval", "message": "May I?",
                    "responseSchema": {"type": "object"}, "metadata": {"a": null}})];
                if self.dice.once_in(2) {
                    interrupts.push(json!({"id": "i2", "reason": "input", "subagentRunId": "a1"}));
                }
                event["outcome"] = json!({"type": "interrupt", "interrupts": interrupts});
            }
            5 => event["result"] = json!({"answer": [42, null]}),
            _ => {}
        }
        if self.dice.once_in(4) {
            event["usage"] = json!([{"provider": "openai", "model": "m", "inputTokens": 5, "outputTokens": 0,
                                     "totalTokens": 5}]);
        }
        self.say(event);
    }
}
