//! What is opened, continued and closed: text, tool calls with their answers, reasoning; and items in either spelling.

use serde_json::{Map, json};

use super::super::{Item, Kind, Piece, Step};
use super::{Call, Course, Known, NAMES, Owner};

impl Course {
    pub(super) fn open_text(&mut self) {
        // A message of this run that is closed may be opened again, by its owner and as what it is.
        let closed: Vec<Known> = self.known[self.first_of_run..]
            .iter()
            .filter(|known| known.role != "reasoning" && self.may_speak(&known.owner))
            .filter(|known| self.open_texts.iter().all(|(id, _)| *id != known.id))
            .cloned()
            .collect();
        let known = if !closed.is_empty() && self.dice.once_in(5) {
            self.dice.pick(&closed).clone()
        } else {
            let role = *self.dice.pick(&["assistant", "assistant", "assistant", "user", "system", "developer"]);
            let name = self.dice.once_in(5).then_some("Ada");
            let known = Known { id: self.mint("m"), role, name, owner: self.owner() };
            self.known.push(known.clone());
            known
        };
        let mut event = json!({"type": "TEXT_MESSAGE_START", "messageId": known.id});
        if known.role != "assistant" || self.dice.once_in(2) {
            event["role"] = json!(known.role);
        }
        if let Some(name) = known.name {
            event["name"] = json!(name);
        }
        self.open_texts.push((known.id, known.owner.clone()));
        self.tell(event, &known.owner);
    }

    /// Whether an invocation has not ended.
    fn may_speak(&self, owner: &Owner) -> bool {
        owner.as_ref().is_none_or(|owner| self.agents.contains(owner) || !self.announced.contains(owner))
    }

    pub(super) fn continue_text(&mut self) {
        if self.open_texts.is_empty() {
            return self.open_text();
        }
        let (id, owner) = self.dice.pick(&self.open_texts).clone();
        let delta = self.word();
        self.go_on(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}), &owner);
    }

    pub(super) fn close_text(&mut self) {
        if self.open_texts.is_empty() {
            return self.open_text();
        }
        let (id, owner) = self.open_texts.swap_remove(self.dice.below(self.open_texts.len()));
        self.go_on(json!({"type": "TEXT_MESSAGE_END", "messageId": id}), &owner);
    }

    /// Where a call may hang: an assistant message of this run, or one that the call makes.
    fn parent(&mut self, owner: &Owner) -> Option<String> {
        let parents: Vec<String> = self.known[self.first_of_run..]
            .iter()
            .filter(|known| known.role == "assistant" && known.owner == *owner)
            .map(|known| known.id.clone())
            .collect();
        match self.dice.below(4) {
            0 | 1 if !parents.is_empty() => Some(self.dice.pick(&parents).clone()),
            2 => Some(self.mint("p")),
            _ => None,
        }
    }

    pub(super) fn open_call(&mut self) {
        let owner = self.owner();
        let call = self.call(&owner);
        let mut event = json!({"type": "TOOL_CALL_START", "toolCallId": call.id, "toolCallName": call.name});
        if let Some(parent) = &call.parent {
            event["parentMessageId"] = json!(parent);
        }
        self.open_calls.push((call.id, owner.clone()));
        self.tell(event, &owner);
    }

    fn call(&mut self, owner: &Owner) -> Call {
        let call = Call {
            id: self.mint("c"),
            name: NAMES[self.dice.below(NAMES.len())],
            parent: self.parent(owner),
            owner: owner.clone(),
            run: self.run,
            answered: false,
        };
        self.calls.push(call.clone());
        call
    }

    pub(super) fn continue_call(&mut self) {
        if self.open_calls.is_empty() {
            return self.open_call();
        }
        let (id, owner) = self.dice.pick(&self.open_calls).clone();
        let delta = *self.dice.pick(&["{\"a\":", "1}", "", "{}"]);
        self.go_on(json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta}), &owner);
    }

    pub(super) fn close_call(&mut self) {
        if self.open_calls.is_empty() {
            return self.open_call();
        }
        let (id, owner) = self.open_calls.swap_remove(self.dice.below(self.open_calls.len()));
        self.go_on(json!({"type": "TOOL_CALL_END", "toolCallId": id}), &owner);
    }

    pub(super) fn answer(&mut self) {
        let open = |course: &Self, id: &str| course.open_calls.iter().any(|(open, _)| open == id);
        let waiting: Vec<usize> = (0..self.calls.len())
            .filter(|&call| !self.calls[call].answered && !open(self, &self.calls[call].id))
            .filter(|&call| self.may_speak(&self.calls[call].owner))
            .collect();
        if waiting.is_empty() {
            return self.open_call();
        }
        let call = *self.dice.pick(&waiting);
        self.calls[call].answered = true;
        let (id, owner) = (self.calls[call].id.clone(), self.calls[call].owner.clone());
        let content = match self.dice.below(4) {
            0 => json!([
                {"type": "text", "text": "Found."},
                {"type": "image", "id": "part", "source": {"type": "url", "value": "https://example.org/x.png"}},
                {"type": "document", "source": {"type": "data", "value": "AA==", "mimeType": "application/pdf"},
                 "metadata": {"title": "A"}},
                {"type": "audio", "source": {"type": "file", "value": "file-1", "provider": "openai"}},
            ]),
            1 => json!(""),
            _ => json!("3 results"),
        };
        let message = self.mint("t");
        let mut event = json!({"type": "TOOL_CALL_RESULT", "messageId": message, "toolCallId": id, "content": content});
        if self.dice.once_in(2) {
            event["role"] = json!("tool");
        }
        self.tell(event, &owner);
    }

    pub(super) fn open_reasoning(&mut self) {
        let (id, owner) = (self.mint("r"), self.owner());
        self.known.push(Known { id: id.clone(), role: "reasoning", name: None, owner: owner.clone() });
        self.open_reasoning.push((id.clone(), owner.clone()));
        self.tell(json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}), &owner);
    }

    pub(super) fn continue_reasoning(&mut self) {
        if self.open_reasoning.is_empty() {
            return self.open_reasoning();
        }
        let place = self.dice.below(self.open_reasoning.len());
        if self.dice.once_in(3) {
            let (id, owner) = self.open_reasoning.swap_remove(place);
            return self.go_on(json!({"type": "REASONING_MESSAGE_END", "messageId": id}), &owner);
        }
        let (id, owner) = self.open_reasoning[place].clone();
        let delta = self.word();
        self.go_on(json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta}), &owner);
    }

    pub(super) fn span(&mut self) {
        if self.open_spans.is_empty() || self.dice.once_in(3) {
            let (id, owner) = (self.mint("s"), self.owner());
            self.open_spans.push((id.clone(), owner.clone()));
            self.tell(json!({"type": "REASONING_START", "messageId": id}), &owner);
        } else {
            let (id, owner) = self.open_spans.swap_remove(self.dice.below(self.open_spans.len()));
            self.go_on(json!({"type": "REASONING_END", "messageId": id}), &owner);
        }
    }

    pub(super) fn encrypted_value(&mut self) {
        let of_run: Vec<Call> = self.calls.iter().filter(|call| call.run == self.run).cloned().collect();
        let (subtype, id, owner) = match self.dice.below(3) {
            0 if !of_run.is_empty() => {
                let call = self.dice.pick(&of_run);
                ("tool-call", call.id.clone(), call.owner.clone())
            }
            1 => ("message", "nobody".to_owned(), None),
            _ if self.known.len() > self.first_of_run => {
                let known = self.dice.pick(&self.known[self.first_of_run..]);
                ("message", known.id.clone(), known.owner.clone())
            }
            _ => return,
        };
        let event = json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": id,
                           "encryptedValue": "b3BhcXVl"});
        self.go_on(event, &owner);
    }

    pub(super) fn item(&mut self) {
        let owner = self.owner();
        let kind = *self.dice.pick(&[Kind::Text, Kind::Text, Kind::ToolCall, Kind::Reasoning]);
        let mut opener = Map::new();
        let id = match kind {
            Kind::Text => {
                let role = *self.dice.pick(&["assistant", "assistant", "user"]);
                let name = self.dice.once_in(5).then_some("Ada");
                if role != "assistant" || self.dice.once_in(2) {
                    opener.insert("role".to_owned(), json!(role));
                }
                if let Some(name) = name {
                    opener.insert("name".to_owned(), json!(name));
                }
                let known = Known { id: self.mint("m"), role, name, owner: owner.clone() };
                self.known.push(known.clone());
                known.id
            }
            Kind::ToolCall => {
                let call = self.call(&owner);
                opener.insert("toolCallName".to_owned(), json!(call.name));
                if let Some(parent) = call.parent {
                    opener.insert("parentMessageId".to_owned(), json!(parent));
                }
                call.id
            }
            Kind::Reasoning => {
                let id = self.mint("r");
                self.known.push(Known { id: id.clone(), role: "reasoning", name: None, owner: owner.clone() });
                id
            }
        };
        let mut pieces = Vec::new();
        for place in 0..=self.dice.below(4) {
            let stands_aside = place > 0 && self.dice.once_in(6);
            pieces.push(Piece {
                aside: if stands_aside { vec![self.aside()] } else { Vec::new() },
                delta: self.word(),
                metadata: self.dice.once_in(4).then(|| json!({"piece": place})),
                raw_event: self.dice.once_in(8).then(|| json!({"piece": place})),
                named: self.dice.once_in(2),
                tagged: self.dice.once_in(2),
                repeated: self.dice.once_in(4),
            });
        }
        self.steps.push(Step::Item(Item { kind, id, owner, opener, pieces }));
    }
}
