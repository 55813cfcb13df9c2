//! Failures of operations on files, in words for the model.

use serde_json::json;
use vestal_sandbox::client::CallError;
use vestal_sandbox::files::FileError;
use vestal_wire::FaultCode;

use crate::approvals::Refusal;
use crate::tool::ToolOutput;

/// Says what failed.
pub(in crate::tools) fn in_words(error: &FileError) -> String {
    match error {
        FileError::Call(CallError::Fault(fault)) => fault.message.clone(),
        other => other.to_string(),
    }
}

/// Reports whether an operation failed for this reason.
pub(in crate::tools) fn is(error: &FileError, code: FaultCode) -> bool {
    matches!(error, FileError::Call(CallError::Fault(fault)) if fault.code == code)
}

/// Returns what the model reads when it may not do something.
pub(in crate::tools) fn refused(refusal: &Refusal) -> ToolOutput {
    let content = json!({ "error": refusal.message, "status": refusal.status.as_str() });
    ToolOutput { is_error: true, ..ToolOutput::json(&content) }
}
