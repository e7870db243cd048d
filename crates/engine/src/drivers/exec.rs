//! `exec`: an agent that is a program, in whatever language, started once for each exchange.
//!
//! It is given the run input on its standard input, as one JSON document, and answers on its standard output: AG-UI events,
//! one a line, or plain text. The process is the first of a group of its own, and when the run is over, however it came to
//! that, nothing is left of the group.

mod group;
mod output;
mod stderr;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_agui::{AgentCapabilities, AgentVersion};
use runwire_bridge::{Completion, Ending, ExchangeEnd, Failure};
use runwire_frame::ErrorCode;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::time::Instant;

use self::group::{Exit, ProcessGroup};
pub use self::output::Output;
use self::output::{OutputReader, Said};
use self::stderr::StandardError;
use super::relay::{Prepared, retryable_if};
use crate::driver::{Driver, Exchange, Starting};
use crate::writer::WriteError;

/// Who speaks, as it is told.
const WHO: &str = "the command";
/// How long a command may go on once it reported its ending, and how long its output is read once it has exited: something
/// that it started may hold the pipe open for ever.
const AFTER_END: Duration = Duration::from_secs(1);
/// Of this server's own environment a command is given these.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// What is started, and within which bounds.
#[derive(Clone, Debug)]
pub struct ExecOptions {
    /// The program and its arguments. No shell reads them. A program without a `/` is searched for in `PATH`; a relative one
    /// is relative to `dir`.
    pub command: Vec<String>,
    /// The folder that it is started in. Default: the server's own.
    pub dir: Option<PathBuf>,
    /// Variables of its environment, beside the server's own `PATH`, `HOME` and `LANG`, over which these win. It has no
    /// others.
    pub env: Vec<(String, String)>,
    /// What its standard output is. Default: told by its first line.
    pub output: Output,
    /// How long it may take in all; then the run fails with `TIMEOUT`. Default: as long as it likes.
    pub timeout: Option<Duration>,
    /// How long it has after SIGTERM until SIGKILL. Default 5 s. A driver that is asked to stop has no longer than the
    /// engine's own grace period.
    pub kill_grace: Duration,
    /// The most bytes of standard output that are taken. Default 64 MiB.
    pub max_output_bytes: u64,
    /// The most bytes of address space that each of its processes may have (`RLIMIT_AS`). Linux only. Default: no limit.
    ///
    /// It is set right after the process was started and before it is given its input. Beyond it allocations fail, which most
    /// programs do not survive; it does not bound what several processes of one command have together.
    pub max_memory: Option<u64>,
    /// Whether a run that fails after its command was started may be tried again without harm. Default: no.
    pub idempotent: bool,
    /// What the agent declares about itself; the command is not asked.
    pub capabilities: AgentCapabilities,
}

impl ExecOptions {
    /// This command, with the defaults.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> ExecOptions {
        ExecOptions {
            command: command.into_iter().map(Into::into).collect(),
            dir: None,
            env: Vec::new(),
            output: Output::default(),
            timeout: None,
            kill_grace: Duration::from_secs(5),
            max_output_bytes: 64 * 1024 * 1024,
            max_memory: None,
            idempotent: false,
            capabilities: AgentCapabilities::default(),
        }
    }
}

/// The driver cannot be set up with these options.
#[derive(Debug, thiserror::Error)]
pub enum ExecSetupError {
    /// There is no program to start.
    #[error("`command` is empty; it is the program and its arguments, such as [\"python3\", \"agent.py\"]")]
    NoCommand,
    /// A text cannot be handed to a process.
    #[error("{what} has a NUL byte, and no process can be given that")]
    Nul {
        /// Which one.
        what: String,
    },
    /// A variable has a name that none can have.
    #[error("`{0}` is no name of a variable: it is empty or has a `=`")]
    VariableName(String),
    /// This system has no such limit.
    #[error("`max_memory` can be enforced on Linux only")]
    NoMemoryLimit,
}

/// Runs a command for each exchange.
#[derive(Clone, Debug)]
pub struct ExecDriver {
    options: std::sync::Arc<ExecOptions>,
}

impl ExecDriver {
    /// A driver for this command. Whether it is there shows when it is started.
    ///
    /// # Errors
    /// When no process could be started so.
    pub fn new(options: ExecOptions) -> Result<ExecDriver, ExecSetupError> {
        if options.command.first().is_none_or(String::is_empty) {
            return Err(ExecSetupError::NoCommand);
        }
        if options.command.iter().any(|word| word.contains('\0')) {
            return Err(ExecSetupError::Nul { what: "`command`".to_owned() });
        }
        for (name, value) in &options.env {
            if name.is_empty() || name.contains('=') {
                return Err(ExecSetupError::VariableName(name.clone()));
            }
            if name.contains('\0') || value.contains('\0') {
                return Err(ExecSetupError::Nul { what: format!("the variable `{}`", name.replace('\0', "")) });
            }
        }
        if options.max_memory.is_some() && !cfg!(target_os = "linux") {
            return Err(ExecSetupError::NoMemoryLimit);
        }
        Ok(ExecDriver { options: std::sync::Arc::new(options) })
    }
}

impl Driver for ExecDriver {
    fn kind(&self) -> &'static str {
        "exec"
    }

    fn capabilities(&self) -> AgentCapabilities {
        self.options.capabilities.clone()
    }

    fn judges_answers(&self) -> bool {
        true
    }

    fn execute(&self, exchange: Exchange, starting: Starting) -> BoxFuture<'static, Result<ExchangeEnd, Failure>> {
        let options = self.options.clone();
        Box::pin(async move { execute(&options, exchange, starting).await })
    }
}

async fn execute(options: &ExecOptions, exchange: Exchange, starting: Starting) -> Result<ExchangeEnd, Failure> {
    let stop = exchange.stop.clone();
    let prepared = Prepared::new(WHO, AgentVersion::default(), exchange, starting)?;
    if stop.is_cancelled() {
        return Ok(cancelled());
    }
    let input = serde_json::to_vec(&prepared.input).unwrap_or_default();
    let run_id = prepared.input.run_id.clone();
    let mut child = command(options).spawn().map_err(|error| not_started(options, &error))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut group = ProcessGroup::new(child);
    let (Some(stdin), Some(mut stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Failure::new(ErrorCode::InternalError, format!("{WHO} was started without pipes to it")));
    };
    limit_memory(options, &group).map_err(|error| {
        Failure::new(ErrorCode::SandboxError, format!("the memory of {WHO} could not be limited: {error}"))
    })?;
    let complaints = StandardError::default();
    let mut output = OutputReader::new(options.output, prepared, options.max_output_bytes).await?;
    // Neither of the two says anything about the run by ending.
    let beside = async {
        tokio::join!(feed(stdin, &input), complaints.read(stderr, &run_id));
        std::future::pending::<()>().await;
    };
    let course = async {
        let wall = async {
            match options.timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let course = tokio::select! {
            () = stop.cancelled() => Course::Stopped,
            () = wall => Course::TooLong,
            followed = follow(&mut group, &mut stdout, &mut output) => match followed {
                Ok(exit) => Course::Over(exit),
                Err(failure) => Course::Failed(failure),
            },
        };
        let killed = !matches!(course, Course::Over(Some(_)));
        if killed {
            // It must be able to write what it still has to say, or it might wait for that instead of ending.
            let drained = async {
                let _ = tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = group.end(options.kill_grace) => {}
                () = drained => {}
            }
        } else {
            group.kill();
        }
        // The reason stands at the end of it.
        let _ = tokio::time::timeout(AFTER_END, complaints.closed()).await;
        course
    };
    let course = tokio::select! {
        course = course => course,
        () = beside => unreachable!("what goes on beside the course never ends"),
    };
    let retryable = options.idempotent;
    let detail = complaints.last();
    let sandbox = |message: String| Failure {
        retryable,
        detail: Some(match &detail {
            Some(last) => format!("{message}; the end of its standard error:\n{last}"),
            None => message.clone(),
        }),
        ..Failure::new(ErrorCode::SandboxError, message)
    };
    match course {
        Course::Stopped => Ok(cancelled()),
        Course::TooLong => {
            let limit = options.timeout.unwrap_or_default();
            let message = format!("{WHO} did not end within {limit:?}");
            Err(Failure { code: ErrorCode::Timeout, ..sandbox(message) })
        }
        Course::Failed(failure) => {
            Err(if failure.code == ErrorCode::SandboxError { sandbox(failure.message) } else { failure })
        }
        Course::Over(exit) => {
            let judged = judge(exit, output.finish().await?).await?;
            judged.map(|end| retryable_if(retryable, end)).map_err(sandbox)
        }
    }
}

/// How a command came to its end.
enum Course {
    /// It exited, or with `None` reported its ending and went on.
    Over(Option<Exit>),
    /// What it wrote cannot be taken.
    Failed(Failure),
    Stopped,
    TooLong,
}

fn cancelled() -> ExchangeEnd {
    ExchangeEnd::Cancelled { usage: Vec::new(), agui: None }
}

fn command(options: &ExecOptions) -> Command {
    // That there is a first word was seen to at the beginning.
    let (program, arguments) = options.command.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(options.env.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &options.dir {
        command.current_dir(dir);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

fn not_started(options: &ExecOptions, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind;
    let program = options.command.first().map_or("", String::as_str);
    let missing_dir = options.dir.as_ref().filter(|dir| !dir.is_dir());
    let reason = match (error.kind(), missing_dir) {
        (_, Some(_)) => "the folder that it is to run in is not there".to_owned(),
        (ErrorKind::NotFound, None) => {
            "there is no such program; look at `command`, and at the server's PATH".to_owned()
        }
        (ErrorKind::PermissionDenied, None) => "it may not be executed".to_owned(),
        _ => error.to_string(),
    };
    let place = options.dir.as_ref().map(|dir| format!(" in {}", dir.display())).unwrap_or_default();
    Failure {
        // That the system has no room for a process may pass; that there is no program does not.
        retryable: matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory),
        detail: Some(format!("{program}{place}: {error}")),
        ..Failure::new(ErrorCode::SandboxError, format!("{WHO} `{program}` could not be started: {reason}"))
    }
}

#[cfg(target_os = "linux")]
fn limit_memory(options: &ExecOptions, group: &ProcessGroup) -> rustix::io::Result<()> {
    use rustix::process::{Resource, Rlimit, prlimit};
    let (Some(most), Some(process)) = (options.max_memory, group.process()) else { return Ok(()) };
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    prlimit(Some(process), Resource::As, limit).map(|_| ())
}

#[cfg(not(target_os = "linux"))]
fn limit_memory(_: &ExecOptions, _: &ProcessGroup) -> rustix::io::Result<()> {
    // Such options were refused.
    Ok(())
}

/// Gives the input, and no more: a command may read to the end.
async fn feed(mut stdin: ChildStdin, input: &[u8]) {
    // One that needs less of it may close it early, which is its business.
    if stdin.write_all(input).await.is_ok() {
        let _ = stdin.shutdown().await;
    }
}

/// Hands on the output until it is over and the command has exited; `None` when it reported its ending and went on.
async fn follow(
    group: &mut ProcessGroup,
    stdout: &mut (impl AsyncRead + Unpin),
    output: &mut OutputReader,
) -> Result<Option<Exit>, Failure> {
    let mut chunk = vec![0; 16 * 1024];
    let mut exit = None;
    let mut open = true;
    let mut until: Option<Instant> = None;
    while open || exit.is_none() {
        let deadline = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = stdout.read(&mut chunk), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(bytes) => output.push(&chunk[..bytes]).await?,
            },
            exited = group.exited(), if exit.is_none() => {
                exit = Some(exited.map_err(|error| lost_sight(&error))?);
            }
            () = deadline => break,
        }
        if exit.is_some() || output.has_ended() {
            // One deadline for all that may still come.
            until.get_or_insert_with(|| Instant::now() + AFTER_END);
        }
    }
    Ok(exit)
}

fn lost_sight(error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::SandboxError, format!("how {WHO} ended cannot be told: {error}"))
}

/// What the run came to. The text of a command that failed stays in a message that is not complete.
async fn judge(exit: Option<Exit>, said: Said) -> Result<Result<ExchangeEnd, String>, WriteError> {
    Ok(match (exit, said) {
        // A failure that it reported itself says more than its exit. One that goes on has no exit.
        (_, Said::Ended(end @ ExchangeEnd::Failed(_))) | (None | Some(Exit::Code(0)), Said::Ended(end)) => Ok(end),
        (None | Some(Exit::Code(0)), Said::Text(message)) => {
            if let Some(message) = message {
                message.end(Ending::completed()).await?;
            }
            Ok(ExchangeEnd::Completed(Completion::default()))
        }
        (None, Said::Truncated(what)) => Err(format!("{WHO} went on, and its {what}")),
        (Some(exit @ Exit::Code(0)), Said::Truncated(what)) => Err(format!("{WHO} {exit}, but its {what}")),
        (Some(exit), Said::Ended(_)) => Err(format!("{WHO} {exit} after it had reported the end of its run")),
        (Some(exit), _) => Err(format!("{WHO} {exit}")),
    })
}
