//! `runwire cancel`

use futures_util::StreamExt as _;
use runwire_client::Followed;
use runwire_frame::{Data, RunStatus};

use crate::cli::CancelArgs;
use crate::exit::Exit;
use crate::follow::server;
use crate::plain::Plain;

/// Asks a run to stop and waits until it has.
pub async fn run(args: CancelArgs) -> anyhow::Result<Exit> {
    let server = server(&args.server)?;
    let mut record = server.cancel(&args.run).await?;
    if !record.status().is_ended() {
        let mut frames = server.follow(&args.run).after(record.head()).start();
        while let Some(followed) = frames.next().await {
            if let Followed::Frame { frame, .. } = followed?
                && matches!(frame.data, Data::RunEnd(_))
            {
                break;
            }
        }
        record = server.run(&args.run).await?;
    }
    if args.server.json {
        println!("{}", serde_json::to_string(&record)?);
    } else if record.status() == RunStatus::Cancelled {
        println!("run {} is cancelled", Plain(record.run_id()));
    } else {
        println!("run {} had ended before: it is {}", Plain(record.run_id()), record.status());
    }
    Ok(if record.status() == RunStatus::Cancelled { Exit::Done } else { Exit::Failed })
}
