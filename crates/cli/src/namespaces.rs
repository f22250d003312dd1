//! `tidegate namespace`: the limits of namespaces, on the admin port of an API.

use hyper::Method;
use serde_json::{Map, json};
use tidegate_core::Namespace;

use crate::admin_port::AdminPort;
use crate::arguments::namespace::{NamespaceArguments, NamespaceCommand};
use crate::failure::CommandFailure;
use crate::output::CommandOutput;

/// Executes the command.
///
/// # Errors
/// The server is unreachable, or refuses the request.
pub(crate) async fn execute(
    arguments: NamespaceArguments,
) -> Result<CommandOutput, CommandFailure> {
    let port = AdminPort::new(arguments.port)?;
    let answer = match arguments.command {
        NamespaceCommand::List => port.send(Method::GET, "/namespaces", None).await?,
        NamespaceCommand::Show { name } => {
            let name = namespace(&name)?;
            let mut shown = port.send(Method::GET, &quota(&name), None).await?;
            let path = format!("/v1/{name}");
            let used = port.send(Method::GET, &path, None).await?;
            shown["limits"] = used["limits"].clone();
            shown
        }
        NamespaceCommand::Set { name, limits } => {
            let mut values = Map::new();
            for (name, value) in limits {
                if values.insert(name.clone(), value.into()).is_some() {
                    let problem = format!("the limit {name} is given twice");
                    return Err(CommandFailure::Usage(problem));
                }
            }
            let path = quota(&namespace(&name)?);
            port.send(Method::PUT, &path, Some(json!(values))).await?
        }
        NamespaceCommand::Delete { name } => {
            let path = quota(&namespace(&name)?);
            port.send(Method::DELETE, &path, None).await?
        }
    };
    Ok(CommandOutput::Answer(answer))
}

fn namespace(name: &str) -> Result<Namespace, CommandFailure> {
    let invalid = |error| CommandFailure::Usage(format!("{name:?}: {error}"));
    Namespace::try_from(name).map_err(invalid)
}

fn quota(namespace: &Namespace) -> String {
    format!("/namespaces/{namespace}")
}
