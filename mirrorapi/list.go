package mirrorapi

import (
	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// listMirrors answers ListMirrors. A mirror's topic count is that of the topics configured for it (KIP), paused ones
// included and removed ones not.
func (h *Handler) listMirrors(req *mirrormsg.ListMirrorsRequest) mirrormsg.Response {
	resp := req.NewResponse().(*mirrormsg.ListMirrorsResponse)
	view := h.store.View()
	for _, m := range view.Mirrors() {
		row := mirrormsg.ListedMirror{
			MirrorName: m.Name, SourceBootstrap: m.Configs[configBootstrapServers], SourceClusterID: m.SourceClusterID,
		}
		for _, topic := range view.TopicsOf(m.Name) {
			if topic.Desired != state.DesiredStopped {
				row.TopicCount++
			}
		}
		resp.Mirrors = append(resp.Mirrors, row)
	}
	return resp
}
