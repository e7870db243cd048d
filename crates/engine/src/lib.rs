//! The engine: executes runs as tasks that it owns, and writes their logs.
//!
//! A run is created in the store, then executed by its agent's [`Driver`] in a task of the engine. The driver writes
//! through a [`RunWriter`]; every frame is in the store before anybody can see it. Whatever the driver does — return,
//! fail, panic, hang after a stop — the engine brings the log to its proper end, and no other run notices.
//!
//! A client's connection is no part of this: a run neither needs a reader nor ends when one leaves (G9).

mod answer_schema;
mod answers;
mod asking;
mod child;
mod child_log;
mod clock;
mod continuing;
mod driver;
pub mod drivers;
mod engine;
mod execution;
mod family;
mod guardrails;
mod held_arguments;
mod history_reader;
mod idempotency;
mod in_hand;
mod lane_slot;
mod limits;
mod outgoing_http;
mod payloads;
mod prices;
mod prompted;
mod recovery;
mod redaction;
mod request;
mod retry;
mod retry_after;
mod run_core;
mod said;
mod segment;
mod sweeper;
mod turns;
mod writer;

pub use answer_schema::{MAX_ANSWER_BYTES, MAX_ANSWER_DEPTH, MAX_SCHEMA_BYTES};
pub use asking::{OnDeadline, WaitRule};
pub use child::{
    CHILD, Child, ChildEnd, ChildError, ChildFrames, ChildFramesError, ChildRun, MAX_CHILD_KEY, MAX_CHILD_TEXT,
};
pub use clock::now;
pub use driver::{Agent, AgentPolicy, Answer, Driver, Exchange, RecordedResult, Starting};
pub use drivers::{ExecutorError, Executors, InProcess, Lines, Standing};
pub use engine::{CancelError, DEADLINE, Engine, EngineOptions, ResumeError, ResumeRun, Waiting, answers_digest};
pub use guardrails::{Action, GuardService, Guarded, Guardrail, Judge, OUTPUT_WINDOW};
pub use history_reader::{KnownSession, Place, Without, stored_payload};
pub use idempotency::{IdempotencyKey, NotAKey};
pub use limits::Limits;
pub use outgoing_http::{HttpSetupError, header_map, http_address, http_client};
pub use payloads::{ModelCall, PayloadPolicy};
pub use prices::{PRICED_TOKENS, Price, Prices};
pub use prompted::{MAX_HISTORY_BYTES, PromptHistory};
pub use recovery::{RecoverError, Recovered};
pub use redaction::{REDACTED, Redaction, SECRET_MIN_BYTES};
// What an agent of the program's own is written with.
pub use request::{CreateRun, CreateRunError, RunRequest, Started};
pub use retry::RetryPolicy;
pub use retry_after::{retry_after, told_retry_after};
pub use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure, Opening, Suspension, ToolOutput};
pub use segment::Segment;
pub use sweeper::Swept;
pub use turns::{Concurrency, DEFAULT_LANE, LaneOptions};
pub use writer::{RunWriter, WriteError};
