package api

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// maxPerHolder bounds the certificates that a holder gets by renewing one again
// and again.
const maxPerHolder = 8

// Authority is what the handlers need of the cluster's certificate authority.
type Authority interface {
	// Sign answers pki.ErrNoKey, wrapped, where the authority's key is not.
	Sign(request []byte, kind pki.Kind, name string) (der []byte, err error)
	Parse(der []byte) (*x509.Certificate, error)
}

// mustOwn refuses everyone but root, and the controller's own user, on a
// controller's host: whoever decides about certificates decides who is who.
func (s *Controller) mustOwn(ctx context.Context) (*caller, error) {
	from, err := s.mustBeUser(ctx)
	if err == nil {
		err = s.confirm(ctx)
	}
	if err != nil {
		return nil, err
	}
	if from.owner != nil || from.certificate || !from.trusted {
		return nil, status.Error(codes.PermissionDenied, "Access/permission denied: only root on a controller's host may do this, and not from inside a job")
	}
	return from, nil
}

// ListCertificates returns the certificates that the authority has issued and
// that are still good, or were revoked. Administrators only.
func (s *Controller) ListCertificates(ctx context.Context, _ *pb.ListCertificatesRequest) (*pb.ListCertificatesResponse, error) {
	if _, err := s.mustAdminister(ctx); err != nil {
		return nil, err
	}
	answer := &pb.ListCertificatesResponse{}
	for c := range s.cluster.View().Certificates {
		answer.Certificates = append(answer.Certificates, &pb.Certificate{
			Serial: c.Serial, Kind: c.Kind, Name: c.Name, FromMs: c.FromMS, UntilMs: c.UntilMS, RevokedMs: c.RevokedMS, RevokedBy: c.RevokedBy})
	}
	return answer, nil
}

// RevokeCertificates revokes certificates. Every controller cuts the
// connections on which one was shown.
func (s *Controller) RevokeCertificates(ctx context.Context, request *pb.RevokeCertificatesRequest) (*pb.RevokeCertificatesResponse, error) {
	from, err := s.mustOwn(ctx)
	if err != nil {
		return nil, err
	}
	id, err := requestID(request.GetRequestId())
	if err != nil {
		return nil, err
	}
	if len(request.GetNames()) == 0 || len(request.GetNames()) > state.MaxCertificatesPerCommand {
		return nil, invalid("name 1 to %d certificates or holders", state.MaxCertificatesPerCommand)
	}
	if _, err := s.propose(ctx, state.RevokeCertificates{Names: request.GetNames(), User: from.name()}, id); err != nil {
		return nil, err
	}
	return &pb.RevokeCertificatesResponse{}, nil
}

// RecordCertificates takes the certificates that were issued on the controller
// with the authority's key.
func (s *Controller) RecordCertificates(ctx context.Context, request *pb.RecordCertificatesRequest) (*pb.RecordCertificatesResponse, error) {
	from, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	if from.controller == "" {
		return nil, status.Error(codes.PermissionDenied, "only a controller may record certificates")
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	return &pb.RecordCertificatesResponse{}, s.record(ctx, request.GetCertificates())
}

// record records certificates, in DER, that the authority has issued. This
// controller leads.
func (s *Controller) record(ctx context.Context, certificates [][]byte) error {
	records := make([]state.Certificate, len(certificates))
	for i, der := range certificates {
		certificate, err := s.options.Authority.Parse(der)
		if err != nil {
			return invalid("certificate %d: %v", i, err)
		}
		kind, name, _ := pki.Holder(certificate)
		records[i] = state.Certificate{Serial: pki.Serial(certificate), Kind: string(kind), Name: name,
			FromMS: certificate.NotBefore.UnixMilli(), UntilMS: certificate.NotAfter.UnixMilli()}
	}
	_, err := s.propose(ctx, state.RecordCertificates{Certificates: records}, state.RequestID{})
	return err
}

// RenewCertificate issues a newer certificate to the holder of one, for itself.
func (s *Controller) RenewCertificate(ctx context.Context, request *pb.RenewCertificateRequest) (*pb.RenewCertificateResponse, error) {
	from, err := s.holder(ctx)
	if err != nil {
		return nil, err
	}
	var kind pki.Kind
	var name string
	switch {
	case from.owner != nil:
	case from.host != "":
		kind, name = pki.Host, from.host
	case from.node != "":
		kind, name = pki.Node, from.node
	case from.controller != "":
		kind, name = pki.Controller, from.controller
	case from.certificate:
		kind, name = pki.User, from.user
	}
	if kind == "" || s.options.Authority == nil {
		return nil, status.Error(codes.PermissionDenied, "only who shows a certificate may renew it, for itself")
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	if err := s.mayRenew(kind, name); err != nil {
		return nil, err
	}
	der, err := s.sign(ctx, &pb.SignRequest{Request: request.GetRequest(), Kind: string(kind), Name: name})
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, [][]byte{der}); err != nil {
		return nil, err
	}
	s.log.Info("certificate renewed", "holder", string(kind)+":"+name)
	return &pb.RenewCertificateResponse{Certificate: der}, nil
}

// holder is who asks to renew a certificate: the only request in which a login host speaks
// for itself.
func (s *Controller) holder(ctx context.Context) (*caller, error) {
	from, err := s.connection(ctx)
	if md, _ := metadata.FromIncomingContext(ctx); err == nil && from.host != "" && !saysUser(md) {
		noteCaller(ctx, from)
		return from, nil
	}
	return s.who(ctx)
}

// mayRenew refuses a holder that has several certificates already.
func (s *Controller) mayRenew(kind pki.Kind, name string) error {
	count, now := 0, time.Now().UnixMilli()
	for c := range s.cluster.View().Certificates {
		if c.Kind == string(kind) && c.Name == name && c.RevokedMS == 0 && c.UntilMS > now {
			count++
		}
	}
	if count >= maxPerHolder {
		return status.Errorf(codes.ResourceExhausted, "%s %s has %d certificates that are good: use the newest, or have some revoked (gctld cert --list)", kind, name, count)
	}
	return nil
}

// sign has a certificate issued, here or by the controller with the authority's key.
func (s *Controller) sign(ctx context.Context, request *pb.SignRequest) ([]byte, error) {
	der, err := s.options.Authority.Sign(request.GetRequest(), pki.Kind(request.GetKind()), request.GetName())
	if err == nil {
		return der, nil
	}
	if !errors.Is(err, pki.ErrNoKey) || s.peers == nil {
		return nil, invalid("%v", err)
	}
	signed, err := s.peers.Sign(ctx, request)
	return signed.GetCertificate(), err
}

// AskRenewal asks for a certificate of this controller: the controller that leads,
// or, if this one leads, the one that has the authority's key.
func (s *Server) AskRenewal(ctx context.Context, request []byte) ([]byte, error) {
	conn, _, err := s.peers.Leader(peerlink.Control)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		if err := s.confirm(ctx); err != nil {
			return nil, err
		}
		der, err := s.users.sign(ctx, &pb.SignRequest{Request: request, Kind: string(pki.Controller), Name: s.cluster.Name()})
		if err == nil {
			err = s.users.record(ctx, [][]byte{der})
		}
		return der, err
	}
	answer, err := pb.NewControllerClient(conn).RenewCertificate(s.asController(ctx), &pb.RenewCertificateRequest{Request: request})
	return answer.GetCertificate(), err
}

// TellIssued has the leader record certificates that were issued here.
func (s *Server) TellIssued(ctx context.Context, certificates [][]byte) error {
	conn, _, err := s.peers.Leader(peerlink.Control)
	switch {
	case err != nil:
		return err
	case conn == nil:
		if err := s.confirm(ctx); err != nil {
			return err
		}
		return s.users.record(ctx, certificates)
	}
	_, err = pb.NewControllerClient(conn).RecordCertificates(s.asController(ctx), &pb.RecordCertificatesRequest{Certificates: certificates})
	return err
}

// asController says that this controller asks on its own behalf.
func (s *Server) asController(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Pairs(metadataCaller, "controller "+s.cluster.Name()))
}
