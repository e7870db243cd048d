//! The command line.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use runwire_agui::AgentVersion;
use tracing_subscriber::EnvFilter;

/// Runs AI agents, or fronts agents that already exist, and delivers every run as a durable, resumable event stream.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, the run completed, or the stream conforms; 1 the run failed, or the stream does not
conform; 2 it could not be done; 3 the run was cancelled; 4 the run waits for an answer; 5 and 6, of
`tail --protocol agui`: its stream breaks a rule of AG-UI, or is cut short.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve agents over HTTP
    Serve(ServeArgs),
    /// Show it all: a server, an agent, a run that is followed, cut and resumed
    Demo(DemoArgs),
    /// Start a run of an agent and follow it
    Run(RunArgs),
    /// Follow a run, live or finished, or all runs of a session
    Tail(TailArgs),
    /// List runs, newest first, or remove ended ones
    Runs(RunsArgs),
    /// Stop a run, and wait until it has ended
    Cancel(CancelArgs),
    /// Answer what a suspended run waits for; without an answer, show what that is
    Resume(ResumeArgs),
    /// Print the frame protocol as a JSON Schema
    Schema(SchemaArgs),
    /// Say what an AG-UI client would make of a stream, captured or fetched
    Check(CheckArgs),
    /// Prove that a store is consistent: every log, record and payload in it
    VerifyLog(VerifyLogArgs),
}

/// Where a server listens, and where the commands look for one, unless they are told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7171";

/// Where a server listens and what it keeps its runs in.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Address to listen on; port 0 takes a free one, which is printed [default: 127.0.0.1:7171]
    #[arg(long, env = "RUNWIRE_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// The SQLite file that runs are kept in; made when it is not there [default: runwire.db]
    #[arg(long, env = "RUNWIRE_STORE", value_name = "PATH")]
    pub store: Option<PathBuf>,
    /// What a commit waits for [default: normal]
    #[arg(long, env = "RUNWIRE_SYNC", value_name = "MODE")]
    pub sync: Option<SyncMode>,
}

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SyncMode {
    /// The operating system has the data: survives a crash of the server
    Normal,
    /// The disk has the data: survives a power loss too
    Full,
}

/// `runwire serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Configuration file (TOML), over which flags and variables win; without one the `demo` agent is served
    #[arg(long, short, env = "RUNWIRE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Print address, store and agents as one line of JSON, and log lines as JSON
    #[arg(long)]
    pub json: bool,
}

/// `runwire demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// What to ask the agent
    #[arg(default_value = "How durable is a stream that I can walk away from?")]
    pub prompt: String,
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Exit after the run instead of serving on
    #[arg(long)]
    pub once: bool,
    /// Print frames and a summary as JSON lines
    #[arg(long)]
    pub json: bool,
}

/// Which server a command talks to.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Address of the server
    #[arg(long, env = "RUNWIRE_SERVER", default_value = "http://127.0.0.1:7171", value_name = "URL")]
    pub server: String,
    /// Token for a server that wants one
    #[arg(long, env = "RUNWIRE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Print JSON for a program: frames or events one a line, or what the server answered
    #[arg(long)]
    pub json: bool,
}

/// `runwire run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Name of the agent
    pub agent: String,
    /// What to ask it
    pub prompt: String,
    /// Id of the session (the conversation) to go on with: the agent is told what was said in it [default: a new one]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// A name for this request, 1 to 255 visible characters of ASCII: given again with the same agent and prompt, it follows
    /// the run that the first one started, and starts none
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// The transport to follow by
    #[arg(long, value_enum, default_value_t = TransportArg::Sse)]
    pub transport: TransportArg,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// `runwire tail`
#[derive(Debug, Args)]
pub struct TailArgs {
    /// Id of the run
    #[arg(required_unless_present = "session")]
    pub run: Option<String>,
    /// Follow all runs of the session with this id, also those to come, until interrupted
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["run", "protocol", "transport"])]
    pub session: Option<String>,
    /// Begin after the last that was read: a frame's `seq`; with `--protocol agui` an event's id, such as 17.0; with
    /// `--session` the id of an event of its stream [default: at the start]
    #[arg(long, value_name = "N")]
    pub after: Option<String>,
    /// What to follow
    #[arg(long, value_enum, default_value_t = ProtocolArg::Frame)]
    pub protocol: ProtocolArg,
    /// The transport to follow by; AG-UI has only sse
    #[arg(long, value_enum, default_value_t = TransportArg::Sse)]
    pub transport: TransportArg,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// The protocols that a run can be followed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtocolArg {
    /// Frame protocol v2
    Frame,
    /// AG-UI 1.0
    Agui,
}

/// The transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TransportArg {
    /// Server-Sent Events
    Sse,
    /// WebSocket
    Ws,
}

/// `runwire runs`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    /// Something other than to list them
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    /// Only runs of this agent
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Only runs of this session
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Only runs that this run started
    #[arg(long, value_name = "RUN")]
    pub parent: Option<String>,
    /// Only runs in this status: queued, running, suspended, retrying, cancelling, completed, failed or cancelled; may
    /// be given several times
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    pub status: Vec<runwire_frame::RunStatus>,
    /// How many at most, 1 to 1000
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What else can be done with runs.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// Remove runs that have ended, with all that belongs to them
    Prune(PruneArgs),
}

/// `runwire runs prune`
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Runs that ended at least so long ago, such as 12h or 30d [default: those that the server's configured retention
    /// does not keep]
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    pub older_than: Option<Duration>,
    /// Only runs of this agent; only together with `--older-than`
    #[arg(long, value_name = "AGENT", requires = "older_than")]
    pub agent: Option<String>,
    /// Say which runs would be removed, and remove none
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// `runwire verify-log`
#[derive(Debug, Args)]
pub struct VerifyLogArgs {
    /// The store, which no server may have open
    #[arg(long, env = "RUNWIRE_STORE", value_name = "PATH", default_value = "runwire.db")]
    pub store: PathBuf,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// `runwire cancel`
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Id of the run
    pub run: String,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// `runwire resume`
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Id of the run
    pub run: String,
    /// An answer: the interrupt's id and the value as JSON; the id may be left out when there is one interrupt. May be
    /// given several times
    #[arg(long, value_name = "ID=JSON")]
    pub answer: Vec<String>,
    /// Approve whatever is not answered otherwise
    #[arg(long, conflicts_with = "deny")]
    pub approve: bool,
    /// Deny whatever is not answered otherwise
    #[arg(long)]
    pub deny: bool,
    /// Follow the run from there on, to its end or until it waits again
    #[arg(long)]
    pub follow: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// `runwire schema`
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// What to print the schema of
    #[arg(value_enum)]
    pub of: SchemaOf,
}

/// What there is a schema of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// A frame of protocol version 2, as a client receives it: JSON Schema, draft 2020-12
    Frame,
}

/// `runwire check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A captured stream (SSE, JSON lines, a JSON array, protobuf frames, or a browser's HAR file), `-` for standard
    /// input, or the http(s) URL of an agent to run
    #[arg(required_unless_present_any = ["rules", "explain"])]
    pub source: Option<PathBuf>,
    /// The run input that the client started from (JSON); what is sent to a URL [default for a URL: a greeting]
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// A header for the request to a URL; may be given several times
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The version of AG-UI that the agent is known to speak, when that is older than 1.0, such as 0.0.57: what is sent to
    /// it and taken from it is translated
    #[arg(long, value_name = "VERSION", default_value_t)]
    pub protocol_version: AgentVersion,
    /// How long a URL may take for the whole run, such as 90s [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    pub timeout: Option<Duration>,
    /// Of a HAR file, only the responses whose URL contains this
    #[arg(long, value_name = "PART")]
    pub only: Option<String>,
    /// Keep no events, messages and state, so that a stream of any length takes constant memory; what only shows in
    /// them, such as a patch that does not apply, is not found then
    #[arg(long)]
    pub no_reduce: bool,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = FormatArg::Text)]
    pub format: FormatArg,
    /// Print only what a client would make of the stream, as JSON; `--format json` says more
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// List every rule, with its severity and page
    #[arg(long, conflicts_with_all = ["source", "explain"])]
    pub rules: bool,
    /// Explain one rule, with a stream that breaks it and one that does not
    #[arg(long, value_name = "RULE", conflicts_with = "source")]
    pub explain: Option<String>,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// For a person
    Text,
    /// For a program
    Json,
    /// For a build server that shows tests
    Junit,
    /// For a tool that shows what static analysis found (SARIF 2.1.0)
    Sarif,
}

fn parse_status(word: &str) -> Result<runwire_frame::RunStatus, String> {
    let known = || runwire_frame::RunStatus::ALL.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ");
    runwire_frame::RunStatus::from_wire(word).ok_or_else(|| format!("there is {}", known()))
}

/// Logs go to standard error, so that standard output is what was asked for. `RUNWIRE_LOG` filters them as
/// `tracing`'s `EnvFilter` does.
pub fn log_to_stderr(command: &Command) {
    let level = if matches!(command, Command::Serve(_)) { "info" } else { "warn" };
    // The client of MCP servers writes addresses into its log, which may hold keys. What matters of it is told by this server.
    let filter = EnvFilter::try_from_env("RUNWIRE_LOG").unwrap_or_else(|_| EnvFilter::new(format!("{level},rmcp=off")));
    // A line that cannot be written, say because the log is on the disk that is full, is lost. To report that, it would be
    // printed to the same standard error, and printing panics where it cannot: in the thread that writes the store, for one.
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match command {
        Command::Serve(args) if args.json => logs.json().init(),
        _ => logs.with_ansi(std::io::stderr().is_terminal()).init(),
    }
}
