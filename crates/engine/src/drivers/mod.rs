//! The drivers that come with Runwire.

mod agui;
mod demo;
mod relay;

pub use agui::{AguiDriver, AguiOptions, AguiSetupError, Binding};
pub use demo::{DemoDriver, DemoOptions};
