//! The agents of a server that is killed: what the binary has, and a command that behaves as it is told.

use std::path::Path;

/// What has to be configured. The pauses between attempts are long enough for a kill to come into them.
const AGENTS: &str = r#"
cancel_grace = "30s"

[lanes.narrow]
limit = 1

[agents.demo]
driver = "demo"
pace = "1ms"

[agents.steady]
driver = "demo"
pace = "2ms"
repeat = 12

[agents.narrow]
driver = "demo"
pace = "2ms"
repeat = 12
lane = "narrow"

[agents.asking]
driver = "demo"
pace = "4ms"
retry = { max_attempts = 4, backoff = "300ms" }
"#;

/// A command for each of these, with so many attempts.
const COMMANDS: [(&str, &str, u32); 3] = [("unsteady", "text", 5), ("stubborn", "text", 1), ("lingering", "agui", 3)];

/// How such a command behaves. It never outlives its server by more than a moment: what it writes then fails.
const SCRIPT: &str = r#"
input=$(cat)
run=$(printf '%s' "$input" | sed 's/.*"runId":"\([^"]*\)".*/\1/')
thread=$(printf '%s' "$input" | sed 's/.*"threadId":"\([^"]*\)".*/\1/')

case $1 in
unsteady)
    # Its first attempt fails, and the further ones take a second.
    if [ ! -e "$run.tried" ]; then
        : >"$run.tried"
        echo "Half of it"
        exit 75
    fi
    n=0
    while [ $n -lt 20 ]; do
        echo "word $n" || exit 1
        sleep 0.05
        n=$((n + 1))
    done
    ;;
stubborn)
    trap '' TERM
    while echo "I go on"; do
        sleep 0.1
    done
    ;;
lingering)
    # It says how its run ended, and stays for a moment, for which the server waits.
    printf '{"type":"RUN_STARTED","threadId":"%s","runId":"%s"}\n' "$thread" "$run"
    printf '{"type":"TEXT_MESSAGE_START","messageId":"m-%s","role":"assistant"}\n' "$run"
    printf '{"type":"TEXT_MESSAGE_CONTENT","messageId":"m-%s","delta":"That is all."}\n' "$run"
    printf '{"type":"TEXT_MESSAGE_END","messageId":"m-%s"}\n' "$run"
    printf '{"type":"RUN_FINISHED","threadId":"%s","runId":"%s"}\n' "$thread" "$run"
    sleep 0.7
    ;;
esac
"#;

/// The configuration of them all. The script goes into the folder.
pub fn configured(folder: &Path) -> String {
    std::fs::write(folder.join("agent.sh"), SCRIPT).unwrap();
    let mut config = AGENTS.to_owned();
    for (name, output, max_attempts) in COMMANDS {
        config += &format!(
            "
[agents.{name}]
driver = \"exec\"
command = [\"sh\", \"agent.sh\", \"{name}\"]
output = \"{output}\"
kill_grace = \"30s\"
idempotent = true
retry = {{ max_attempts = {max_attempts}, backoff = \"700ms\" }}
"
        );
    }
    config
}
