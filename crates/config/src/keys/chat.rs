//! How the chat looks and behaves.

keys! {
    /// Whether what the model thinks is shown in the chat.
    DISPLAY_SHOW_REASONING: bool = "display.show_reasoning" {
        default: false,
        limits: (),
        env: ["VESTAL_SHOW_REASONING"],
    }

    /// Whether the terminal rings when something has ended that nobody was looking at.
    DISPLAY_BELL: bool = "display.bell" {
        default: true,
        limits: (),
        env: ["VESTAL_BELL"],
    }
}
