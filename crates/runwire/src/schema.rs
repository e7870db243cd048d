//! `runwire schema`

use std::io::Write as _;

use crate::cli::{SchemaArgs, SchemaOf};
use crate::exit::Exit;

/// Prints a schema.
pub fn run(args: SchemaArgs) -> anyhow::Result<Exit> {
    let schema = match args.of {
        SchemaOf::Frame => runwire_frame::frame_schema(),
    };
    // Not `println`: whoever reads only the beginning is no failure.
    writeln!(std::io::stdout(), "{schema:#}")?;
    Ok(Exit::Done)
}
