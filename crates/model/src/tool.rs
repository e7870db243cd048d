//! Tools that this server executes: what one is, and where an agent's tools come from.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use runwire_bridge::ToolOutput;
use runwire_engine::RunWriter;
use runwire_frame::SegmentId;
use serde_json::{Map, Value};

use crate::approval::Approval;
use crate::call::ToolSpec;

/// A call's arguments, read once: what is judged, what is shown and what is executed are the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    value: Map<String, Value>,
    json: String,
}

impl Arguments {
    /// What a model wrote. Nothing at all means no arguments.
    ///
    /// # Errors
    /// What is wrong with it, for the model.
    pub fn parse(written: &str) -> Result<Arguments, String> {
        if written.trim().is_empty() {
            return Ok(Arguments::of(Map::new()));
        }
        match serde_json::from_str(written) {
            Ok(Value::Object(value)) => Ok(Arguments::of(value)),
            Ok(_) => Err("the arguments are no JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are no JSON: {error}")),
        }
    }

    /// These.
    pub fn of(value: Map<String, Value>) -> Arguments {
        let json = serde_json::to_string(&value).expect("JSON values always serialise");
        Arguments { value, json }
    }

    /// The arguments by their names.
    pub fn value(&self) -> &Map<String, Value> {
        &self.value
    }

    /// The same as JSON, without white space.
    pub fn as_json(&self) -> &str {
        &self.json
    }
}

/// What a tool's work came to.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolReturn {
    /// Whether it worked.
    pub ok: bool,
    /// What it returned, or why it did not.
    pub output: ToolOutput,
    /// Whether it failed because it took too long.
    pub timed_out: bool,
    /// It did not begin, and asks to be called again after so long.
    pub retry_after: Option<Duration>,
}

impl ToolReturn {
    /// It worked and returned this.
    pub fn worked(output: ToolOutput) -> ToolReturn {
        ToolReturn { ok: true, output, timed_out: false, retry_after: None }
    }

    /// It failed, and the model is told why.
    pub fn failed(why: impl Into<String>) -> ToolReturn {
        ToolReturn { ok: false, output: ToolOutput::Text(why.into()), timed_out: false, retry_after: None }
    }
}

/// A call that a tool is to execute.
#[derive(Clone, Debug)]
pub struct ToolUse {
    /// The conversation's id of the call.
    pub tool_call_id: String,
    /// Its arguments.
    pub arguments: Arguments,
    /// Where it was made; `None` outside of a run.
    pub within: Option<Within>,
}

/// Where a call was made.
#[derive(Clone)]
pub struct Within {
    /// The run.
    pub run: RunWriter,
    /// The call's segment, which what the tool does happens inside of.
    pub segment: SegmentId,
}

impl std::fmt::Debug for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Within").field("segment", &self.segment).finish_non_exhaustive()
    }
}

/// A tool that this server executes.
pub trait OwnTool: Send + Sync + 'static {
    /// What a model is told of it.
    fn spec(&self) -> &ToolSpec;

    /// Which of its calls have to be allowed.
    fn approval(&self) -> &Approval;

    /// Whether its failure is the run's. Otherwise the model is told of it and goes on.
    fn required(&self) -> bool;

    /// Executes a call. Dropping the future gives it up.
    fn execute(&self, call: ToolUse) -> BoxFuture<'static, ToolReturn>;
}

/// Where tools come from that have to be asked for.
pub trait ToolSource: Send + Sync + 'static {
    /// What it is called in the configuration.
    fn name(&self) -> &str;

    /// Whether a run fails that cannot have its tools. Otherwise it goes on without.
    fn required(&self) -> bool;

    /// Its tools.
    ///
    /// # Errors
    /// Why it has none now, for a person.
    fn tools(&self) -> BoxFuture<'static, Result<Listed, String>>;
}

/// The tools that a source has.
#[derive(Clone, Default)]
pub struct Listed {
    /// The tools.
    pub tools: Vec<Arc<dyn OwnTool>>,
    /// What the configuration says of tools that the source has not: a sentence for each.
    pub unknown: Vec<String>,
}

/// The tools of one exchange. No two have the same name.
#[derive(Clone, Default)]
pub(crate) struct Toolbox {
    own: Vec<(String, Arc<dyn OwnTool>)>,
    frontend: Vec<ToolSpec>,
}

/// What becomes of a call.
pub(crate) enum Callee<'a> {
    /// This server executes it.
    Own(&'a Arc<dyn OwnTool>),
    /// The application does.
    Frontend,
    /// Nobody does.
    Nobody,
}

impl Toolbox {
    /// Adds tools that this server executes. `source` is put before a name that is taken.
    pub fn add_own(&mut self, source: &str, tools: impl IntoIterator<Item = Arc<dyn OwnTool>>) {
        for tool in tools {
            let name = callable(&tool.spec().name);
            let name = if self.has(&name) { callable(&format!("{source}_{name}")) } else { name };
            if !self.has(&name) {
                self.own.push((name, tool));
            }
        }
    }

    /// Adds a tool that the application executes. Says whether it could: this server's own tools cannot be replaced.
    pub fn add_frontend(&mut self, tool: ToolSpec) -> bool {
        let free = !self.has(&tool.name);
        if free {
            self.frontend.push(tool);
        }
        free
    }

    fn has(&self, name: &str) -> bool {
        self.own.iter().any(|(known, _)| known == name) || self.frontend.iter().any(|tool| tool.name == name)
    }

    /// What a model is told of them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let own = self.own.iter().map(|(name, tool)| ToolSpec { name: name.clone(), ..tool.spec().clone() });
        own.chain(self.frontend.iter().cloned()).collect()
    }

    /// Who a call of that name is for.
    pub fn callee(&self, name: &str) -> Callee<'_> {
        if let Some((_, tool)) = self.own.iter().find(|(known, _)| known == name) {
            return Callee::Own(tool);
        }
        match self.frontend.iter().any(|tool| tool.name == name) {
            true => Callee::Frontend,
            false => Callee::Nobody,
        }
    }

    /// What a model is told that called a tool that is not there.
    pub fn no_such_tool(&self, name: &str) -> String {
        let names: HashSet<String> = self.specs().into_iter().map(|tool| tool.name).collect();
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        match names.is_empty() {
            true => format!("there is no tool `{name}`, and no other either"),
            false => format!("there is no tool `{name}`; there is {}", names.join(", ")),
        }
    }
}

/// A name that every provider takes: letters, digits, `_` and `-`, at most 64 of them.
fn callable(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(allowed).take(64).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    struct Named(ToolSpec);

    impl OwnTool for Named {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        fn approval(&self) -> &Approval {
            &Approval::Never
        }
        fn required(&self) -> bool {
            false
        }
        fn execute(&self, _: ToolUse) -> BoxFuture<'static, ToolReturn> {
            Box::pin(async { ToolReturn::failed("not called here") })
        }
    }

    fn spec(name: &str) -> ToolSpec {
        ToolSpec { name: name.to_owned(), description: String::new(), parameters: json!({}) }
    }

    fn tool(name: &str) -> Arc<dyn OwnTool> {
        Arc::new(Named(spec(name)))
    }

    #[test]
    fn no_two_tools_have_the_same_name_and_own_ones_cannot_be_replaced() {
        let mut tools = Toolbox::default();
        tools.add_own("tools", [tool("look")]);
        tools.add_own("files", [tool("look"), tool("look"), tool("a b/c")]);
        assert!(!tools.add_frontend(spec("look")));
        assert!(tools.add_frontend(spec("show")));
        let names: Vec<String> = tools.specs().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["look", "files_look", "a_b_c", "show"]);
        assert!(matches!(tools.callee("look"), Callee::Own(_)));
        assert!(matches!(tools.callee("show"), Callee::Frontend));
        assert!(matches!(tools.callee("lok"), Callee::Nobody));
        assert!(tools.no_such_tool("lok").contains("a_b_c, files_look, look, show"));
    }

    #[test]
    fn arguments_are_an_object_or_nothing() {
        assert_eq!(Arguments::parse(" ").unwrap().as_json(), "{}");
        assert_eq!(Arguments::parse("{ \"a\" : 1 }").unwrap().as_json(), r#"{"a":1}"#);
        assert!(Arguments::parse("[1]").unwrap_err().contains("no JSON object"));
        assert!(Arguments::parse("{\"a\":").unwrap_err().contains("no JSON"));
    }
}
