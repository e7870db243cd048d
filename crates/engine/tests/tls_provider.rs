//! A test program of its own: a TLS provider is the whole process's, and here there is none.

#![allow(missing_docs)]

use runwire_engine::HttpSetupError;
use runwire_engine::drivers::{AguiDriver, AguiOptions};

#[test]
fn a_process_without_a_tls_provider_is_told_what_to_do_instead_of_a_panic() {
    let refused = AguiDriver::new(AguiOptions::new("http://127.0.0.1:1/")).err();
    let Some(HttpSetupError::NoTlsProvider) = &refused else { panic!("{refused:?}") };
}
