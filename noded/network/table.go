package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// table is a job's table of nftables. It exists while its socket is open, and nobody else
// can change it: the kernel refuses that, and leaves it out when all rules are flushed.
type table struct{ conn *nftables.Conn }

// occupied holds the number that the kernel gives the first socket of a process: the
// process's own. A table belongs to a number, and the kernel removes it when it hears, a
// moment late, that a socket with that number was closed; by then the number may be that of
// another socket, which has just made a table. Those after the first have numbers that do
// not come again soon.
var occupied = sync.OnceValues(func() (*nftables.Conn, error) { return nftables.New(nftables.AsLasting()) })

// makeTable makes the table of a plan.
func makeTable(plan *Plan) (*table, error) {
	if _, err := occupied(); err != nil {
		return nil, fmt.Errorf("reach nftables: %w", err)
	}
	var socket *mdlayher.Conn
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *mdlayher.Conn) error {
		socket = c
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("reach nftables: %w", err)
	}
	t := &table{conn}
	if err := own(socket, plan.Link); err != nil {
		t.close()
		return nil, fmt.Errorf("make table %s of nftables: %w", plan.Link, err)
	}
	fill(conn, &nftables.Table{Name: plan.Link, Family: nftables.TableFamilyINet}, plan.Chains())
	if err := conn.Flush(); err != nil {
		t.close()
		return nil, fmt.Errorf("fill table %s of nftables: %w", plan.Link, err)
	}
	return t, nil
}

// fill puts chains with their rules into a table.
func fill(conn *nftables.Conn, at *nftables.Table, chains []Chain) {
	for _, chain := range chains {
		in := conn.AddChain(chainOf(at, chain.Hook))
		for _, rule := range chain.Rules {
			for _, exprs := range rule.expressions() {
				conn.AddRule(&nftables.Rule{Table: at, Chain: in, Exprs: exprs})
			}
		}
	}
}

// guardTable is the name of the node's table. No link has such a name.
const guardTable = Prefix + "-guard"

// guard makes the node's table be about these interfaces, in one step; without any there is
// none. It belongs to nobody: it stays when everything is killed.
func guard(uplinks []string) error {
	conn, err := occupied()
	if err != nil {
		return fmt.Errorf("reach nftables: %w", err)
	}
	at := conn.AddTable(&nftables.Table{Name: guardTable, Family: nftables.TableFamilyINet}) // only what is there can be removed
	conn.DelTable(at)
	if len(uplinks) > 0 {
		fill(conn, conn.AddTable(at), []Chain{{Forward, guarding(uplinks)}})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("fill table %s of nftables: %w", guardTable, err)
	}
	return nil
}

func (t *table) close() {
	if t != nil {
		_ = t.conn.CloseLasting()
	}
}

// ownerFlag is NFT_TABLE_F_OWNER.
const ownerFlag = 2

// own makes a table that belongs to the socket. The library has no word for that.
func own(socket *mdlayher.Conn, name string) error {
	header := func(family byte, resource uint16) []byte {
		return append([]byte{family, unix.NFNETLINK_V0}, binary.BigEndian.AppendUint16(nil, resource)...)
	}
	attributes, err := mdlayher.MarshalAttributes([]mdlayher.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binary.BigEndian.AppendUint32(nil, ownerFlag)},
	})
	if err != nil {
		return err
	}
	message := func(kind uint16, flags mdlayher.HeaderFlags, data []byte) mdlayher.Message {
		return mdlayher.Message{Header: mdlayher.Header{Type: mdlayher.HeaderType(kind), Flags: mdlayher.Request | flags}, Data: data}
	}
	const tables = unix.NFNL_SUBSYS_NFTABLES << 8
	if _, err := socket.SendMessages([]mdlayher.Message{
		message(unix.NFNL_MSG_BATCH_BEGIN, 0, header(0, unix.NFNL_SUBSYS_NFTABLES)),
		message(tables|unix.NFT_MSG_NEWTABLE, mdlayher.Create|mdlayher.Excl|mdlayher.Acknowledge, append(header(unix.NFPROTO_INET, 0), attributes...)),
		message(unix.NFNL_MSG_BATCH_END, 0, header(0, unix.NFNL_SUBSYS_NFTABLES)),
	}); err != nil {
		return err
	}
	_, err = socket.Receive()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("a kernel of Linux 5.12 or newer is needed: %w", err)
	}
	return err
}

// chainOf is a chain at a hook.
func chainOf(at *nftables.Table, hook Hook) *nftables.Chain {
	chain := &nftables.Chain{Name: string(hook), Table: at, Type: nftables.ChainTypeFilter, Priority: nftables.ChainPriorityFilter}
	switch hook {
	case Forward:
		chain.Hooknum = nftables.ChainHookForward
	case Input:
		chain.Hooknum = nftables.ChainHookInput
	case Output:
		chain.Hooknum = nftables.ChainHookOutput
	case Postrouting:
		chain.Hooknum = nftables.ChainHookPostrouting
		chain.Type, chain.Priority = nftables.ChainTypeNAT, nftables.ChainPriorityNATSource
	}
	return chain
}

// expressions are the rule, or the rules, for the kernel.
func (r *Rule) expressions() [][]expr.Any {
	if r.Verdict != Refuse {
		return [][]expr.Any{append(r.match(), r.Verdict.expression())}
	}
	// The kernel answers by ICMP only so often. TCP would wait for the next answer.
	stream := *r
	stream.Protocol = protocolTCP
	return [][]expr.Any{
		append(stream.match(), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}), append(r.match(), r.Verdict.expression()),
	}
}

// match is the part of a rule that says to which packets it applies, for the kernel's
// machine: it loads something into a register and compares it.
func (r *Rule) match() (all []expr.Any) {
	meta := func(key expr.MetaKey, op expr.CmpOp, data []byte) {
		all = append(all, &expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: data})
	}
	if r.In != "" {
		meta(expr.MetaKeyIIFNAME, expr.CmpOpEq, padded(r.In))
	}
	if r.Out != "" {
		meta(expr.MetaKeyOIFNAME, expr.CmpOpEq, padded(r.Out))
	}
	if r.NotOut != "" {
		meta(expr.MetaKeyOIFNAME, expr.CmpOpNeq, padded(r.NotOut))
	}
	if r.NotToJobs {
		meta(expr.MetaKeyOIFNAME, expr.CmpOpNeq, []byte(Prefix)) // its first bytes
	}
	if r.IPv4 {
		meta(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV4})
	}
	if r.From.IsValid() {
		all = append(all, address(r.From, false)...)
	}
	if r.To.IsValid() {
		all = append(all, address(r.To, true)...)
	}
	if r.Protocol != 0 {
		meta(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{r.Protocol})
	}
	if r.Ports != (PortRange{}) {
		all = append(all, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: binary.BigEndian.AppendUint16(nil, r.Ports.First), ToData: binary.BigEndian.AppendUint16(nil, r.Ports.Last)})
	}
	if r.Known {
		bits := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
		all = append(all, &expr.Ct{Register: 1, Key: expr.CtKeySTATE},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: bits, Xor: make([]byte, 4)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)})
	}
	if r.Above != 0 {
		const burst = 4 // a fraction of what is sent in a second
		all = append(all, &expr.Limit{Type: expr.LimitTypePktBytes, Rate: r.Above, Unit: expr.LimitTimeSecond, Over: true, Burst: uint32(min(r.Above/burst+1<<16, 1<<31))})
	}
	if r.Full != 0 {
		all = append(all, &expr.Connlimit{Count: r.Full, Flags: 1})
	}
	return all
}

func (v Verdict) expression() expr.Any {
	switch v {
	case Drop:
		return &expr.Verdict{Kind: expr.VerdictDrop}
	case Refuse:
		return &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}
	case Masquerade:
		return &expr.Masq{}
	default:
		return &expr.Verdict{Kind: expr.VerdictAccept}
	}
}

// address compares the sender's or the receiver's address.
func address(p netip.Prefix, to bool) []expr.Any {
	family, offset, length := byte(unix.NFPROTO_IPV4), uint32(12), uint32(4)
	if p.Addr().Is6() {
		family, offset, length = unix.NFPROTO_IPV6, 8, 16
	}
	if to {
		offset += length
	}
	mask := make([]byte, length)
	for bit := range p.Bits() {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: length, Mask: mask, Xor: make([]byte, length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}

// padded is the name of an interface as the kernel compares it.
func padded(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}
