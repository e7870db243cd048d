//! What has to hold once the next server is there.

use std::time::Duration;

use runwire_agui::{Consumer, ConsumerOptions, StreamEnd};
use runwire_client::RunRecord;
use runwire_frame::{Frame, LogValidator, RunStatus};
use serde_json::{Value, json};

use super::World;
use super::arranging::answer;
use crate::followers::Truth;
use crate::program::PATIENCE;
use crate::serving::Serving;

impl World {
    /// Brings every run to its end, and looks at it; with `leave`, some of those that wait for an answer wait on.
    pub async fn settle(&mut self, server: &Serving, leave: bool) {
        self.ask_again(server).await;
        self.answer_again(server).await;
        let mut left = Vec::new();
        let settling = async {
            while let Some(run_id) = self.open.keys().find(|run_id| !left.contains(*run_id)).cloned() {
                let record = server.client().run(&run_id).await.unwrap();
                if !record.members()["ended_at"].is_null() {
                    self.has_ended(server, &record).await;
                } else if record.status() == RunStatus::Suspended {
                    let waits_for = record.waits_for().unwrap_or_else(|| panic!("{run_id} waits for nothing"));
                    assert!(!waits_for.interrupts.is_empty(), "{record:?}");
                    self.is_as_it_was(server, &run_id).await;
                    if leave && self.dice.below(2) == 0 {
                        left.push(run_id);
                    } else {
                        answer(server, &run_id).await;
                    }
                } else {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        let settled = tokio::time::timeout(PATIENCE, settling).await;
        if settled.is_err() {
            let mut hanging = Vec::new();
            for run_id in self.open.keys() {
                let log = server.log_of(run_id).await;
                hanging.push(format!("{run_id}:\n{}", log[log.len().saturating_sub(5)..].join("\n")));
            }
            panic!("these neither end nor wait for an answer:\n{}\n{:?}", hanging.join("\n"), self.seen);
        }
        self.one_after_the_other(server).await;
    }

    /// Whoever has no answer asks again, and has one run for it, whether or not it was there.
    async fn ask_again(&mut self, server: &Serving) {
        for (body, run_id) in std::mem::take(&mut self.creating).into_iter().flat_map(|creating| creating.asked) {
            let (status, record) = World::post(&self.http, &server.at("/v2/runs"), &body).await.unwrap();
            let again = record["run_id"].as_str().unwrap_or_else(|| panic!("{status}: {record}")).to_owned();
            match (&run_id, status) {
                (Some(run_id), 200) => assert_eq!(again, *run_id),
                (None, 200) => self.seen.done_unanswered += 1,
                (None, 201) => self.seen.not_done += 1,
                _ => panic!("{status} for {body}, which was answered with {run_id:?} before: {record}"),
            }
            let session = body["input"]["threadId"].as_str().unwrap();
            let runs = server.client().runs(&super::of_session(session)).await.unwrap().runs;
            assert_eq!(runs.len(), 1, "one request, one run: {runs:?}");
            self.open.entry(again).or_default();
        }
    }

    /// An answer without an answer is given again and is taken, once; another one comes too late.
    async fn answer_again(&mut self, server: &Serving) {
        for answering in std::mem::take(&mut self.answering) {
            let url = server.at(&format!("/v2/runs/{}/resume", answering.run_id));
            let (status, record) = World::post(&self.http, &url, &answering.body).await.unwrap();
            match status {
                200 => self.seen.done_unanswered += 1,
                202 => self.seen.not_done += 1,
                _ => panic!("{status} for the same answer again: {record}"),
            }
            let mut other = answering.body.clone();
            other["answers"][0]["payload"] = json!({ "approved": false });
            other["exchange_id"] = json!(self.name("other"));
            let (status, problem) = World::post(&self.http, &url, &other).await.unwrap();
            assert_eq!(status, 409, "{problem}");
        }
    }

    /// What the dead server left of the run stands in its log, byte for byte.
    async fn is_as_it_was(&self, server: &Serving, run_id: &str) {
        let (was, log) = (&self.open[run_id], server.log_of(run_id).await);
        assert!(log.starts_with(was), "{run_id}: {was:?} was there and {log:?} is");
    }

    async fn has_ended(&mut self, server: &Serving, record: &RunRecord) {
        let run_id = record.run_id();
        self.is_as_it_was(server, run_id).await;
        self.open.remove(run_id);
        *self.seen.ended.entry(record.status().to_string()).or_default() += 1;
        if self.being_stopped.iter().any(|stopped| stopped == run_id) {
            assert_eq!(record.status(), RunStatus::Cancelled, "{run_id} was asked to stop");
        }
        let truth = Truth::of(server, run_id).await;
        let mut log = LogValidator::new();
        for body in &truth.frames {
            log.push(&Frame::decode(body.as_bytes()).unwrap()).unwrap_or_else(|e| panic!("{run_id}: {e}"));
        }
        log.finish().unwrap();
        let mut consumer = Consumer::new(ConsumerOptions::default());
        for event in &truth.events {
            let (_, event) = event.split_once(' ').unwrap();
            consumer.push_json(event.as_bytes()).unwrap_or_else(|e| panic!("{run_id}: {e:?} at {event}"));
        }
        assert!(matches!(consumer.finish(), StreamEnd::Completed { .. }), "{run_id}");
        for reader in self.readers.remove(run_id).into_iter().flatten() {
            let kind = reader.reader;
            truth.holds(kind, &reader.until_it_ends().await.all, run_id);
        }
    }

    /// Of two runs of a session the second begins when the first has ended, over however many servers.
    async fn one_after_the_other(&mut self, server: &Serving) {
        for [first, second] in std::mem::take(&mut self.in_line) {
            let (first, second) = (server.log_of(&first).await, server.log_of(&second).await);
            let at = |body: &String| {
                let frame: Value = serde_json::from_str(body).unwrap();
                frame["ts"].as_str().unwrap().to_owned()
            };
            let (ended, began) = (at(first.last().unwrap()), at(&second[0]));
            assert!(ended <= began, "the first ended at {ended}, the second began at {began}");
        }
    }
}
