package noded

import (
	"context"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	loginagent "github.com/gleaner-hpc/gleaner/proto/login"
)

// serveUsers lets the users of this node ask the controllers, with its certificate, until
// ctx ends. Whether the controllers believe it is their policy's word. A node without it
// works otherwise, so what is in the way is only told.
func (a *agent) serveUsers(ctx context.Context) {
	config := &a.machine.config
	if config.AgentSocket == NoSocket {
		return
	}
	listener, err := dial.ListenUnix(config.AgentSocket, "agent_socket in the configuration of gnoded")
	if err != nil {
		a.log.Warn("the users of this node cannot ask the controllers through it; agent_socket = \"none\" says that they need not", "error", err)
		return
	}
	agent := &loginagent.Agent{Controllers: config.Controllers, TLSDir: config.TLSDir, Log: a.log}
	if err := agent.Serve(ctx, listener); err != nil {
		a.log.Error("the users of this node can no longer ask the controllers through it: restart gnoded, its jobs go on", "error", err)
	}
}
