// tlogmem is Trillian's log server and sequencer in one process over its in-memory store, with the duplicate detection
// that this store leaves out, so that the Rekor server above it answers 409 as one with a database does. Test use only.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"sync"
	"time"

	"github.com/google/trillian"
	"github.com/google/trillian/extension"
	tlog "github.com/google/trillian/log"
	"github.com/google/trillian/monitoring"
	"github.com/google/trillian/quota"
	"github.com/google/trillian/server"
	"github.com/google/trillian/server/admin"
	"github.com/google/trillian/server/interceptor"
	"github.com/google/trillian/storage"
	"github.com/google/trillian/storage/memory"
	"github.com/google/trillian/util/clock"
	"github.com/google/trillian/util/election2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

type dedup struct {
	storage.LogStorage
	mu   sync.Mutex
	seen map[string]*trillian.LogLeaf
}

func (d *dedup) QueueLeaves(ctx context.Context, t *trillian.Tree, ls []*trillian.LogLeaf, ts time.Time) ([]*trillian.QueuedLogLeaf, error) {
	if len(ls) != 1 {
		return nil, status.Error(codes.Unimplemented, "one leaf at a time")
	}
	k := string(ls[0].LeafIdentityHash)
	d.mu.Lock()
	if old := d.seen[k]; old != nil {
		d.mu.Unlock()
		return []*trillian.QueuedLogLeaf{{Leaf: old, Status: status.New(codes.AlreadyExists, "leaf already exists").Proto()}}, nil
	}
	d.seen[k] = proto.Clone(ls[0]).(*trillian.LogLeaf)
	d.mu.Unlock()
	// the store keeps what it is given and the sequencer writes to it: queue a copy
	if _, err := d.LogStorage.QueueLeaves(ctx, t, []*trillian.LogLeaf{proto.Clone(ls[0]).(*trillian.LogLeaf)}, ts); err != nil {
		return nil, err
	}
	return []*trillian.QueuedLogLeaf{{Leaf: ls[0]}}, nil
}

func main() {
	addr := flag.String("listen", "127.0.0.1:8090", "gRPC address")
	ival := flag.Duration("interval", 20*time.Millisecond, "sequencer interval")
	flag.Parse()
	ctx := context.Background()
	ts := memory.NewTreeStorage()
	mf := monitoring.InertMetricFactory{}
	reg := extension.Registry{
		AdminStorage:    memory.NewAdminStorage(ts),
		LogStorage:      &dedup{LogStorage: memory.NewLogStorage(ts, mf), seen: map[string]*trillian.LogLeaf{}},
		QuotaManager:    quota.Noop(),
		MetricFactory:   mf,
		ElectionFactory: election2.NoopFactory{},
	}
	ti := interceptor.New(reg.AdminStorage, reg.QuotaManager, false, mf)
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(interceptor.ErrorWrapper, ti.UnaryInterceptor))
	ls := server.NewTrillianLogRPCServer(reg, clock.System)
	trillian.RegisterTrillianLogServer(s, ls)
	trillian.RegisterTrillianAdminServer(s, admin.New(reg, []trillian.TreeType{trillian.TreeType_LOG}))
	om := tlog.NewOperationManager(tlog.OperationInfo{Registry: reg, BatchSize: 1000, NumWorkers: 1, RunInterval: *ival, TimeSource: clock.System}, tlog.NewSequencerManager(reg, 0))
	go om.OperationLoop(ctx)
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("tlogmem on %v", l.Addr())
	log.Fatal(s.Serve(l))
}
