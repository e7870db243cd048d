//! Bringing runs to where they are to be when the server is killed.

use std::time::Duration;

use runwire_client::{Answer, CreateRun};
use runwire_frame::{Data, RunStatus};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::World;
use super::moment::Moment;
use crate::followers::{Follower, READERS};
use crate::serving::{Serving, client};

/// Requests that each create a run, one after the other, until the server is gone.
pub struct Creating {
    /// What was asked, and the run that is the answer to it; `None` for the one without an answer.
    pub asked: Vec<(Value, Option<String>)>,
    asking: Option<JoinHandle<Stopped>>,
}

/// How such requests came to their end.
struct Stopped {
    asked: Vec<(Value, Option<String>)>,
    /// Whether the last was on its way to a server that was there.
    on_its_way: bool,
}

/// An answer to a suspended run.
pub struct Answering {
    pub run_id: String,
    pub body: Value,
    asking: Option<JoinHandle<reqwest::Result<(u16, Value)>>>,
}

/// What is asked of an agent that is to ask back.
const ASKS: &str = "Let me approve this";

impl World {
    /// Creates a run, and reads it in all three ways.
    async fn create(&mut self, server: &Serving, agent: &str, session: Option<&str>) -> String {
        let mut create = CreateRun::prompt(agent, if agent == "asking" { ASKS } else { "How long is this?" });
        if let Some(session) = session {
            create = create.session_id(session);
        }
        let run_id = server.client().create_run(&create).await.unwrap().run_id().to_owned();
        let follow = |reader| Follower::of(client(server.url()), &run_id, reader, Duration::from_secs(40));
        self.readers.insert(run_id.clone(), READERS.map(follow).into());
        self.open.insert(run_id.clone(), Vec::new());
        run_id
    }

    async fn suspended(&mut self, server: &Serving) -> String {
        let run_id = self.create(server, "asking", None).await;
        server.wait_for(&run_id, |frame| becomes(&frame.data, RunStatus::Suspended)).await;
        run_id
    }

    /// Has runs come to this moment. What lasts only for an instant begins with [`World::strike`].
    pub async fn arrange(&mut self, server: &Serving, moment: Moment) {
        match moment {
            Moment::InLane => {
                let first = self.create(server, "narrow", None).await;
                server.wait_for(&first, |frame| becomes(&frame.data, RunStatus::Running)).await;
                self.create(server, "narrow", None).await;
            }
            Moment::BehindItsSession => {
                let session = self.name("session");
                let first = self.create(server, "steady", Some(&session)).await;
                let second = self.create(server, "steady", Some(&session)).await;
                self.in_line.push([first, second]);
            }
            Moment::Running => {
                let run_id = self.create(server, "steady", None).await;
                server.wait_for(&run_id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
            }
            Moment::Suspended => {
                self.suspended(server).await;
            }
            Moment::JustResumed => {
                let run_id = self.suspended(server).await;
                answer(server, &run_id).await;
                server.wait_for(&run_id, |frame| matches!(frame.data, Data::Resume(_))).await;
            }
            Moment::Retrying => {
                let run_id = self.create(server, "unsteady", None).await;
                server.wait_for(&run_id, |frame| becomes(&frame.data, RunStatus::Retrying)).await;
            }
            Moment::RunningAgain => {
                let run_id = self.create(server, "unsteady", None).await;
                let mut again = false;
                server
                    .wait_for(&run_id, |frame| {
                        again |= matches!(&frame.data, Data::RunStart(start) if start.attempt > 1);
                        again && matches!(frame.data, Data::TextDelta(_))
                    })
                    .await;
            }
            Moment::Cancelling => {
                let run_id = self.create(server, "stubborn", None).await;
                server.wait_for(&run_id, |frame| matches!(frame.data, Data::TextDelta(_))).await;
                server.client().cancel(&run_id).await.unwrap();
            }
            Moment::AttemptsEnd => {
                let run_id = self.create(server, "lingering", None).await;
                server.wait_for(&run_id, |frame| matches!(frame.data, Data::SegmentEnd(_))).await;
            }
            Moment::DuringCreate => {
                let clients = 4;
                self.creating.extend((0..clients).map(|_| Creating { asked: Vec::new(), asking: None }));
            }
            Moment::DuringAnswer => {
                for _ in 0..3 {
                    let run_id = self.suspended(server).await;
                    let record = server.client().run(&run_id).await.unwrap();
                    let interrupt_id = record.waits_for().unwrap().interrupts[0].interrupt_id.clone();
                    let answer = Answer::resolved(interrupt_id, json!({ "approved": true }));
                    let body = json!({ "answers": [answer], "exchange_id": self.name("answer") });
                    self.answering.push(Answering { run_id, body, asking: None });
                }
            }
        }
    }

    /// Sends what is to be without an answer, and says how long it is until the kill.
    pub async fn strike(&mut self, server: &Serving) -> Duration {
        let lane = self.name("client");
        for (number, creating) in self.creating.iter_mut().enumerate() {
            let (http, url, name) = (self.http.clone(), server.at("/v2/runs"), format!("{lane}-{number}"));
            creating.asking = Some(tokio::spawn(async move {
                let mut asked = Vec::new();
                loop {
                    let thread = format!("{name}-{}", asked.len());
                    let message = json!({ "id": "m1", "role": "user", "content": "How long is this?" });
                    let input = json!({ "threadId": thread, "runId": "first", "messages": [message] });
                    let body = json!({ "agent_id": "demo", "input": input });
                    match World::post(&http, &url, &body).await {
                        Ok((status, record)) => {
                            assert_eq!(status, 201, "{record}");
                            asked.push((body, Some(record["run_id"].as_str().unwrap().to_owned())));
                        }
                        Err(error) => {
                            asked.push((body, None));
                            return Stopped { asked, on_its_way: !error.is_connect() };
                        }
                    }
                }
            }));
        }
        for answering in &mut self.answering {
            let (http, body) = (self.http.clone(), answering.body.clone());
            let url = server.at(&format!("/v2/runs/{}/resume", answering.run_id));
            answering.asking = Some(tokio::spawn(async move { World::post(&http, &url, &body).await }));
        }
        let most = match (self.answering.is_empty(), self.creating.is_empty()) {
            (false, _) => 12_000,
            (true, false) => 60_000,
            (true, true) => 80_000,
        };
        Duration::from_micros(self.dice.below(most))
    }

    /// After the kill: which requests have no answer.
    pub async fn unanswered(&mut self) {
        let mut moments = Vec::new();
        for creating in &mut self.creating {
            if let Some(asking) = creating.asking.take() {
                let stopped = asking.await.unwrap();
                moments.extend(stopped.on_its_way.then_some(Moment::DuringCreate));
                creating.asked = stopped.asked;
            }
        }
        for answering in &mut self.answering {
            if let Some(asking) = answering.asking.take() {
                match asking.await.unwrap() {
                    Ok((status, record)) => assert_eq!(status, 202, "{record}"),
                    Err(error) => moments.extend((!error.is_connect()).then_some(Moment::DuringAnswer)),
                }
            }
        }
        for moment in moments {
            *self.seen.moments.entry(moment).or_default() += 1;
        }
    }
}

/// Lets a suspended run go on.
pub async fn answer(server: &Serving, run_id: &str) {
    let record = server.client().run(run_id).await.unwrap();
    let waits_for = record.waits_for().unwrap();
    let answers: Vec<Answer> = waits_for
        .interrupts
        .iter()
        .map(|interrupt| Answer::resolved(&interrupt.interrupt_id, json!({ "approved": true })))
        .collect();
    server.client().resume(run_id, &answers).await.unwrap();
}

fn becomes(data: &Data, status: RunStatus) -> bool {
    matches!(data, Data::RunStatus(change) if change.status == status)
}
