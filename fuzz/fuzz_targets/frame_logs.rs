//! Any bytes as frames of the frame protocol, one a line, and as a log of them.
//!
//! No panic; a frame that was read is written and read again as itself, and is written the same again; the validator takes
//! or refuses it and stays where it was when it refuses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use runwire_frame::{Frame, Incoming, LogValidator};

fuzz_target!(|input: &[u8]| {
    let mut validator = LogValidator::new();
    for line in input.split(|&byte| byte == b'\n') {
        let incoming = Incoming::decode(line);
        let Ok(frame) = Frame::decode(line) else { continue };
        assert_eq!(incoming.as_ref(), Ok(&Incoming::Frame(frame.clone())), "a frame is a frame to a client");
        let written = frame.encode();
        let again = Frame::decode(&written).expect("what was written is a frame");
        assert_eq!(again, frame);
        assert_eq!(again.encode(), written);
        let head = validator.head();
        match validator.push(&frame) {
            Ok(()) => assert_eq!(validator.head(), head + 1),
            Err(_) => {
                assert_eq!(validator.head(), head);
                assert!(validator.push(&frame).is_err(), "what was refused is refused again");
            }
        }
    }
    // Whether the log is finished is an answer like any other.
    let _ = validator.finish();
});
