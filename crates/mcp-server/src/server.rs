//! What answers the requests of one client.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, http_caller};
use crate::failure::ToolFailure;
use crate::resources;
use crate::service::{ServiceState, Toolset};

/// The server as one client sees it.
#[derive(Clone)]
pub(crate) struct SandboxServer {
    service: Arc<ServiceState>,
    /// Ended once the client is gone.
    gone: CancellationToken,
}

impl SandboxServer {
    pub(crate) fn new(service: Arc<ServiceState>, gone: CancellationToken) -> Self {
        Self { service, gone }
    }

    /// Waits for work unless the client cancels it or vanishes: then the work is dropped, and what it
    /// runs in the foreground is killed with it.
    async fn unless_cancelled<T>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = T>,
    ) -> Result<T, ErrorData> {
        let session = http_caller(context).and_then(|caller| caller.session.clone());
        let entered =
            session.map(|session| self.service.calls.enter((session, context.id.clone())));
        let cancelled = async {
            match &entered {
                Some(entered) => entered.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => {}
            () = self.gone.cancelled() => {}
            () = cancelled => {}
            done = work => return Ok(done),
        }
        Err(ErrorData::internal_error("the request was cancelled", None))
    }

    /// Waits for its turn.
    async fn call_for_resources(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Call, ErrorData> {
        let place = Arc::clone(&self.service.working).acquire_owned().await;
        let place = place.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Call::new(Arc::clone(&self.service), context.clone(), place).map_err(protocol_error)
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ToolFailure> {
        let Some(tool) = self.service.tools.get(&request.name) else {
            return Err(ToolFailure::new(format!("there is no tool {}", request.name)));
        };
        let place = if tool.waits {
            Arc::clone(&self.service.waiting).try_acquire_owned().ok()
        } else {
            Arc::clone(&self.service.working).acquire_owned().await.ok()
        };
        let Some(place) = place else {
            return Err(ToolFailure::new("too many commands are being waited for at once")
                .advise("run with `background: true`, or wait for some of them to end"));
        };
        let call = Call::new(Arc::clone(&self.service), context.clone(), place)?;
        (tool.run)(request.arguments.unwrap_or_default(), call).await
    }
}

impl ServerHandler for SandboxServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("vestal", env!("CARGO_PKG_VERSION"))
                    .with_title("Vestal sandboxes"),
            )
            .with_instructions(instructions(&self.service))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.service.tools.list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.service.tools.get(name).map(|tool| tool.description.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.service.tools.get(&request.name).is_none() {
            let message = format!("unknown tool: {}", shortened(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        }
        let done = self.unless_cancelled(&context, self.call(request, &context)).await?;
        Ok(done.unwrap_or_else(CallToolResult::from).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let work = async {
            let call = self.call_for_resources(&context).await?;
            Ok::<_, ErrorData>(resources::list(&call).await)
        };
        let listed = self.unless_cancelled(&context, work).await??;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let work = async {
            let call = self.call_for_resources(&context).await?;
            resources::read(&call, &request.uri).await
        };
        Ok(self.unless_cancelled(&context, work).await??.into())
    }

    /// A request whose parameters have not the form of its method arrives here, as one of no method
    /// that is known.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = shortened(&request.method);
        if KNOWN_METHODS.contains(&request.method.as_str()) {
            let message = format!("the parameters of {method} have the wrong form");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method: {method}"), None))
    }
}

/// Methods that take parameters.
const KNOWN_METHODS: &[&str] =
    &["initialize", "tools/call", "tools/list", "resources/read", "resources/list"];

/// What cannot be answered as the result of a tool.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
pub(crate) fn protocol_error(failure: ToolFailure) -> ErrorData {
    ErrorData::invalid_params(failure.to_string(), None)
}

/// Returns a name as it can be repeated to the client.
fn shortened(name: &str) -> String {
    name.chars().take(100).filter(|c| !c.is_control()).collect()
}

/// What a client tells its model about this server.
fn instructions(service: &ServiceState) -> String {
    let options = &service.options;
    let mut text = String::new();
    if options.toolsets.contains(&Toolset::Sandbox) {
        if options.unconfined {
            text.push_str(
                "WARNING: the user has allowed sandboxes without isolation. Commands and file tools may act directly on the user's own machine, with the user's rights; sandbox_list names the backend. Ask the user before anything that deletes, overwrites or publishes.\n\n",
            );
        }
        text.push_str(
            "These tools work in a durable Linux sandbox. It is made at first use. Its files, installed software, shell sessions and background jobs stay when the conversation ends, and are there again in the next one.\n\
             - `run` runs shell text. The session `main` keeps directory, variables and functions from one call to the next. For servers, watchers and anything over a few minutes pass `background: true`, then use job_wait and job_logs.\n\
             - A command that fails is a result with its exit code, not an error.\n\
             - Files: file_read, file_write, file_edit, file_list, file_search. Relative paths begin at the workspace.\n\
             - Before something risky: snapshot_create; snapshot_restore brings it back. sandbox_fork makes a copy to try things in; pass its `task` to the other tools.\n",
        );
        if options.overrides.mount.is_some() {
            text.push_str(
                "- The workspace is the user's project directory: changes there are changes of the user's files. Snapshots leave it out and copies by sandbox_fork work in the same directory, so neither protects it. Name its files by relative paths.\n",
            );
        } else if !options.unconfined {
            text.push_str("- The sandbox does not see the user's files.\n");
        }
    }
    if service.board.is_some() {
        text.push_str(
            "The board_* tools are for the user's task board, whose tasks other agents may work on.\n",
        );
    }
    text
}
