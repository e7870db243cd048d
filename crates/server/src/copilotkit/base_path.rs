//! Where the runtime's routes can be.

/// Where they are unless something else is configured.
pub const COPILOTKIT_PATH: &str = "/copilotkit";

/// The first parts of the paths that the server itself has.
const TAKEN: [&str; 7] = ["agui", "v2", "healthz", "readyz", "metrics", "openapi.json", "assets"];

/// A path under which the runtime's routes cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopilotKitPathError {
    /// It is no path of plain parts.
    #[error(
        "`{0}` is no path such as `/api/copilotkit`: it begins with `/`, does not end with one, and its parts consist of \
         letters, digits, `-`, `_`, `.` and `~`"
    )]
    NoPath(String),
    /// The server has routes of its own there.
    #[error("`{path}` is taken: this server has routes of its own under `/{first}`")]
    Taken {
        /// The path.
        path: String,
        /// Its first part.
        first: String,
    },
}

/// Whether CopilotKit's runtime can be served under this path.
///
/// # Errors
/// [`CopilotKitPathError`], with what is wrong with it.
pub fn check_copilotkit_path(path: &str) -> Result<(), CopilotKitPathError> {
    let plain = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !part.is_empty() && part != "." && part != ".." && part.bytes().all(plain)
    };
    let Some(parts) = path.strip_prefix('/').filter(|parts| parts.split('/').all(plain)) else {
        return Err(CopilotKitPathError::NoPath(path.to_owned()));
    };
    let first = parts.split('/').next().unwrap_or_default();
    if TAKEN.contains(&first) {
        return Err(CopilotKitPathError::Taken { path: path.to_owned(), first: first.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_plain_parts_that_the_server_does_not_use_itself() {
        for possible in [COPILOTKIT_PATH, "/api/copilotkit", "/a-b_c.d~e", "/agui2"] {
            assert_eq!(check_copilotkit_path(possible), Ok(()), "{possible}");
        }
        for none in ["", "/", "copilotkit", "/copilotkit/", "//x", "/a//b", "/{agent}", "/a b", "/..", "/a/.", "/a?b"] {
            assert_eq!(check_copilotkit_path(none), Err(CopilotKitPathError::NoPath(none.to_owned())), "{none}");
        }
        for taken in ["/agui", "/agui/x", "/v2/copilotkit", "/healthz"] {
            assert!(matches!(check_copilotkit_path(taken), Err(CopilotKitPathError::Taken { .. })), "{taken}");
        }
    }
}
