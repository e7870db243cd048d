//! Producing streams: handles that make an illegal one unwritable where types can, and a guard where they cannot.
//!
//! - [`Producer`] starts runs, [`Run`] ends them, [`Writer`] writes their content, and each thing that is open is a handle.
//!   Content goes through the handle of what it belongs to; closing consumes the handle; ending consumes the run. All of
//!   it can be shared by several tasks.
//! - [`Guard`] takes events as data, from wherever, and lets pass what a conforming consumer takes. The producer's own
//!   events go through one too, so that what types cannot say (an id that is used twice, a patch that is none) is an error
//!   and not a broken stream.
//!
//!   [`check_value`] is its first half, for data that finds its place in a stream later.
//!
//! No I/O, no clock, no randomness: ids and timestamps come from the caller, events go to a [`Sink`].
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use runwire_agui::producer::{Outcome, Producer};
//! use runwire_agui::{CallUsage, Event, RunStarted, SseEncoder};
//!
//! let wire = Arc::new(Mutex::new(Vec::new()));
//! let out = wire.clone();
//! let producer = Producer::new(move |event: Event| {
//!     SseEncoder::encode_event(&mut out.lock().unwrap(), None, &event.to_json_string());
//! });
//! let run = producer.start(RunStarted::new("thread-1", "run-1"))?;
//! let writer = run.writer();
//!
//! // Several items at once, in any order.
//! let message = writer.text("message-1")?;
//! message.write("Let me ")?;
//! let call = writer.tool_call("call-1", "search")?;
//! call.arguments(r#"{"for":"tea"}"#)?;
//! message.write("look.")?;
//! message.end()?;
//! call.end()?.result("result-1", "3 results found.")?;
//!
//! writer.count(&CallUsage { input: Some(12), output: Some(3), ..CallUsage::of("acme", "m1") }.account()?)?;
//! run.finish(Outcome::Success)?;
//! assert!(String::from_utf8_lossy(&wire.lock().unwrap()).contains("RUN_FINISHED"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What does not compile
//!
//! Content without the handle of an open item:
//!
//! ```compile_fail,E0599
//! # fn f(writer: &runwire_agui::producer::Writer) {
//! writer.write("whose text is this?");
//! # }
//! ```
//!
//! content after the end:
//!
//! ```compile_fail,E0382
//! # fn f(message: runwire_agui::producer::TextMessage) {
//! message.end();
//! message.write("late"); // the handle is gone
//! # }
//! ```
//!
//! text into a tool call, or arguments into a message:
//!
//! ```compile_fail,E0599
//! # fn f(call: runwire_agui::producer::ToolCall) {
//! call.write("prose"); // a call takes `arguments`
//! # }
//! ```
//!
//! the result of a call that is open, or a second one:
//!
//! ```compile_fail,E0599
//! # fn f(call: runwire_agui::producer::ToolCall) {
//! call.result("result-1", "early"); // only an ended call has a result
//! # }
//! ```
//!
//! ```compile_fail,E0382
//! # fn f(call: runwire_agui::producer::EndedCall) {
//! call.result("result-1", "once");
//! call.result("result-2", "twice"); // the call is answered
//! # }
//! ```
//!
//! anything after the end of the run, or a second end:
//!
//! ```compile_fail,E0505
//! # use runwire_agui::producer::{Outcome, Run};
//! # fn f(run: Run) {
//! let writer = run.writer();
//! run.finish(Outcome::Success);
//! writer.text("late"); // the run is gone
//! # }
//! ```
//!
//! ```compile_fail,E0382
//! # use runwire_agui::producer::{Outcome, Run};
//! # fn f(run: Run) {
//! run.cancel();
//! run.finish(Outcome::Success); // a run that was stopped is not a success
//! # }
//! ```
//!
//! a result of a run that was stopped, or an interrupt of one: [`Run::cancel`] takes neither.
//!
//! # What is an error instead
//!
//! - A clone of a [`Writer`] in another task outlives the run: it gets [`ProduceError::Ended`].
//! - [`Run::finish`] while something is open is a [`FinishError`] that names it. Nothing was sent, and the run is handed
//!   back, because only the caller knows whether to close, to cancel or to fail.
//! - A handle that is dropped leaves its item open, and sends nothing: an end would present what was cut off as whole.
//!   Such an item is named by [`Run::finish`], and closed by [`Run::close_abandoned`] or [`Run::cancel`].
//! - A [`Run`] that is dropped has no ending. A consumer sees a truncated run: neither success nor failure.

mod error;
mod guard;
mod item;
mod open;
mod run;
mod strict;
mod writer;

pub use error::{FinishError, NotFinished, NotStarted, ProduceError};
pub use guard::{Guard, Refused};
pub use item::{EndedCall, Item, ReasoningMessage, Span, Step, Subagent, TextMessage, ToolCall, kind};
pub use open::{OpenItem, OpenKind};
pub use run::{Outcome, Producer, Run, Sink};
pub use strict::check_value;
pub use writer::{Extras, Writer};
