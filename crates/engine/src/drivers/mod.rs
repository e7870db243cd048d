//! The drivers that come with Runwire.

mod agui;
mod demo;
mod exec;
mod external;
mod in_process;
mod lines;
mod relay;

pub use agui::{AguiDriver, AguiOptions, Binding};
pub use demo::{DemoDriver, DemoOptions};
pub use exec::{ExecDriver, ExecOptions, ExecSetupError, Output};
pub use external::{Claim, ExecutorError, Executors, ExternalDriver, ExternalOptions, Standing};
pub use in_process::{InProcess, InProcessDriver};
pub use lines::{LineTooLong, Lines};
