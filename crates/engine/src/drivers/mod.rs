//! The drivers that come with Runwire.

mod agui;
mod demo;

pub use agui::{AguiDriver, AguiOptions, AguiSetupError};
pub use demo::{DemoDriver, DemoOptions};
